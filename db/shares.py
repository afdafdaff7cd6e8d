"""Shares of the devices: owners' weights, and the device-seconds that their trials took, fading with time.

Half of what was used counts no more after HALF_LIFE_SECS: shares are even over minutes, not over months. Ages
are database time. Who goes next is decided by services/tuning/shares.py.
"""

from collections import defaultdict
from collections.abc import Collection, Mapping
from typing import cast

from sqlalchemy import Table, bindparam, delete, select, update
from sqlalchemy.orm import Session

from db.clock import secs_since, utc_now
from db.conflict import insert_or_update, insert_unless_there
from db.farm_tables import OwnerRow, UsageRow

HALF_LIFE_SECS = 300.0
_USAGE = cast("Table", UsageRow.__table__)
_THIS = (_USAGE.c.owner == bindparam("of"), _USAGE.c.target_id == bindparam("target"))
# Made once: each batch of results asks them.
_HELD = select(_USAGE.c.device_secs, secs_since(_USAGE.c.as_of)).where(*_THIS).with_for_update()
_SET = update(_USAGE).where(*_THIS).values(device_secs=bindparam("secs"), as_of=utc_now())


def add_usage(session: Session, spent_secs: Mapping[tuple[str, int], float]) -> None:
    """Add device-seconds by (owner, target). Its rows are locked last of all, in one order."""
    for owner, target_id in sorted(spent_secs):
        which = {"of": owner, "target": target_id}
        found = session.execute(_HELD, which).first()
        if found is None:
            values = {"owner": owner, "target_id": target_id, "device_secs": 0.0, "as_of": utc_now()}
            insert_unless_there(session, UsageRow, values, unique=["owner", "target_id"])
            found = session.execute(_HELD, which).one()
        secs = faded(found[0], found[1]) + spent_secs[owner, target_id]
        session.execute(_SET, {**which, "secs": secs})


def read_usage(session: Session, target_ids: Collection[int]) -> dict[int, dict[str, float]]:
    """By target: device-seconds by owner as they stand now."""
    statement = select(
        UsageRow.target_id, UsageRow.owner, UsageRow.device_secs, secs_since(UsageRow.as_of)
    ).where(UsageRow.target_id.in_(target_ids))
    used: dict[int, dict[str, float]] = defaultdict(dict)
    for target_id, owner, device_secs, age_secs in session.execute(statement):
        used[target_id][owner] = faded(device_secs, age_secs)
    return used


def faded(device_secs: float, age_secs: float) -> float:
    fraction: float = 0.5 ** (max(0.0, age_secs) / HALF_LIFE_SECS)
    return device_secs * fraction


def read_weights(session: Session) -> dict[str, float]:
    """Of the owners whose weight is not 1."""
    return {name: weight for name, weight in session.execute(select(OwnerRow.name, OwnerRow.weight))}  # noqa: C416 - rows, not pairs


def set_weight(session: Session, owner: str, weight: float) -> None:
    """From now on; 1 is everybody's. Raises ValueError where it is not positive."""
    if not 0 < weight <= 1e6:
        raise ValueError("a weight is a positive number, at most a million")
    if weight == 1:
        session.execute(delete(OwnerRow).where(OwnerRow.name == owner))
    else:
        insert_or_update(session, OwnerRow, {"name": owner, "weight": weight}, unique=["name"])
