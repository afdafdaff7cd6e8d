"""Device-seconds are added once, fade by database time, and weights are kept where they are not 1."""

import pytest
from sqlalchemy import Engine, update

from db.clock import utc_now
from db.farm_tables import UsageRow
from db.session import reading, transaction
from db.shares import HALF_LIFE_SECS, add_usage, read_usage, read_weights, set_weight
from tests.tuning.rows import add_target


def test_what_was_used_adds_up_and_fades(engine: Engine) -> None:
    target_id = add_target(engine)
    for _ in range(2):
        with transaction(engine) as session:
            add_usage(session, {("alice", target_id): 3.0, ("bob", target_id): 1.0})
    with reading(engine) as session:
        used = read_usage(session, [target_id])[target_id]
    assert used == {"alice": pytest.approx(6.0, rel=0.01), "bob": pytest.approx(2.0, rel=0.01)}
    with transaction(engine) as session:
        session.execute(update(UsageRow).values(as_of=utc_now(offset_secs=-HALF_LIFE_SECS)))
    with transaction(engine) as session:
        add_usage(session, {("bob", target_id): 1.0})
    with reading(engine) as session:
        used = read_usage(session, [target_id, target_id + 1])[target_id]
    assert used == {"alice": pytest.approx(3.0, rel=0.01), "bob": pytest.approx(2.0, rel=0.01)}


def test_a_weight_is_kept_and_one_is_the_default(engine: Engine) -> None:
    with transaction(engine) as session:
        set_weight(session, "alice", 3.0)
        set_weight(session, "alice", 2.0)
        set_weight(session, "bob", 4.0)
        set_weight(session, "bob", 1.0)
    with reading(engine) as session:
        assert read_weights(session) == {"alice": 2.0}
    for bad in (0.0, -1.0, float("nan"), 1e9):
        with transaction(engine) as session, pytest.raises(ValueError, match="positive"):
            set_weight(session, "alice", bad)
