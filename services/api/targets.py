"""From what a user named as target to its canonical form: a profile, a TVM tag, or an allow-listed object.

Only a tag and the names of CPUs need TVM; they are asked of an intake child.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from sqlalchemy import Engine

from checks.target import TargetError, canonical, is_profile_name, is_tag, key
from db.profiles import find_profile
from db.session import reading
from services.api.errors import InvalidError
from services.api.intake import Intake


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedTarget:
    #: As the user named it, for show.
    name: str
    canonical: dict[str, Any]

    @property
    def key(self) -> str:
        return key(self.canonical)


class TargetAsking(Protocol):
    """An intake child, or what opens one on demand."""

    def target(self, target: Mapping[str, Any]) -> dict[str, Any]: ...


class AskOnDemand:
    """Opens a child only for what needs TVM: a tag. A target's own form is enough to find records by."""

    def __init__(self, intake: Intake) -> None:
        self._intake = intake

    def target(self, target: Mapping[str, Any]) -> dict[str, Any]:
        if set(target) != {"tag"}:
            return dict(target)
        with self._intake.open() as child:
            return child.target(target)


def resolve(engine: Engine, target: str | Mapping[str, Any], child: TargetAsking) -> NamedTarget:
    """The target in canonical form, its CPU known to TVM. Raises InvalidError."""
    if isinstance(target, str):
        profile = from_profile(engine, target)
        if profile is not None:
            return profile
        if is_tag(target):
            return NamedTarget(name=target, canonical=checked(child.target({"tag": target})))
        detail = f"there is no profile {target!r}, nor is it a TVM tag; GET /v1/targets lists profiles"
        raise InvalidError.of("unknown_target", detail)
    if set(target) == {"tag"} and isinstance(tag := target["tag"], str) and is_tag(tag):
        return NamedTarget(name=tag, canonical=checked(child.target({"tag": tag})))
    form = checked(target)
    return NamedTarget(name=_short_name(form), canonical=checked(child.target(form)))


def from_profile(engine: Engine, name: str) -> NamedTarget | None:
    if not is_profile_name(name):
        return None
    with reading(engine) as session:
        profile = find_profile(session, name)
    return None if profile is None else NamedTarget(name=name, canonical=profile.target.canonical)


def checked(target: Mapping[str, Any]) -> dict[str, Any]:
    """The canonical form by the allow-list alone. Raises InvalidError."""
    try:
        return canonical(target)
    except TargetError as error:
        raise InvalidError.of(error.code, error.detail) from None


def _short_name(form: Mapping[str, Any]) -> str:
    if form["kind"] == "cuda":
        return f"cuda {form['arch']}"
    return f"llvm {form['mcpu']} x{form['num-cores']}"
