"""Which variables a role's settings know, so that no manifest sets one that nobody reads."""

from pydantic_settings import BaseSettings

from services.api.settings import ApiSettings
from services.server.settings import ServerSettings
from services.tuning.settings import TunerSettings
from workers.settings import WorkerSettings

_ROLES: dict[str, type[BaseSettings]] = {
    "admin": ServerSettings,
    "api": ApiSettings,
    "tuner": TunerSettings,
    "worker": WorkerSettings,
    "worker-cuda": WorkerSettings,
}


def variables(role: str) -> set[str]:
    """TILEFARM_ and the field's name, of each field."""
    return {f"TILEFARM_{name.upper()}" for name in _ROLES[role].model_fields}
