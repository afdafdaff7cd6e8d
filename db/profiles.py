"""Profiles: names for targets, which workers bring along when they join."""

from dataclasses import dataclass

from sqlalchemy import select
from sqlalchemy.orm import Session

from db.conflict import insert_or_update
from db.tables import ProfileRow, TargetRow
from db.targets import Target


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    name: str
    target: Target


def store_profile(session: Session, name: str, *, target_id: int) -> None:
    """Name a target; a name that is taken now means the new target."""
    insert_or_update(session, ProfileRow, {"name": name, "target_id": target_id}, unique=["name"])


def find_profile(session: Session, name: str) -> Profile | None:
    return next(iter(_profiles(session, name)), None)


def list_profiles(session: Session) -> list[Profile]:
    return _profiles(session, None)


def _profiles(session: Session, name: str | None) -> list[Profile]:
    statement = (
        select(ProfileRow.name, TargetRow.id, TargetRow.key, TargetRow.canonical)
        .join(TargetRow, TargetRow.id == ProfileRow.target_id)
        .order_by(ProfileRow.name)
    )
    if name is not None:
        statement = statement.where(ProfileRow.name == name)
    return [
        Profile(name=found, target=Target(id=target_id, key=key, canonical=canonical))
        for found, target_id, key, canonical in session.execute(statement)
    ]
