"""Old databases with generated rows are upgraded step by step, and their locks are told."""

from sqlalchemy import text

from bench.generated_rows import Size
from bench.upgrade import _counts, fill_old, upgrade_by_steps
from db.migrate import current_revision, head_revision
from db.session import connect
from tests.servers import run_postgres


def test_each_revision_is_timed_with_what_waits_for_it() -> None:
    with run_postgres() as url:
        engine = connect(url)
        fill_old(engine, Size(trials=400, trials_per_search=32, large=80))
        before = _counts(engine)
        steps = {step.revision: step for step in upgrade_by_steps(engine)}
        assert current_revision(engine) == head_revision() == max(steps)
        assert _counts(engine) == before
        with engine.connect() as connection:
            marked = connection.execute(text("SELECT count(*) FROM trials WHERE improved")).scalar_one()
        engine.dispose()
    assert before["trials"] == 9 * 32 + 80
    assert marked
    assert all(step.secs > 0 for step in steps.values())
    assert {revision: steps[revision].waiting for revision in ("0006", "0009", "0011", "0012")} == {
        "0006": {"trials": "all"},
        "0009": {"trials": "all"},
        "0011": {"tasks": "all"},
        "0012": {"workers": "writes"},
    }
