"""Settings whose values may stand in files: secrets that an orchestrator mounts, not shown by `env` or `ps`.

A settings class that has a field `token` and a field `token_file` reads TILEFARM_TOKEN, or the file that
TILEFARM_TOKEN_FILE names. It watches no file: a secret that changed is read by the next start.
"""

from pathlib import Path
from typing import Any

from pydantic import model_validator
from pydantic_settings import BaseSettings

_SUFFIX = "_file"
#: A secret is a URL or a token; a path that names anything else is a mistake.
_MAX_BYTES = 1 << 16


class FileSettings(BaseSettings):
    """Base of the roles' settings. A value that is given itself wins over its file."""

    @model_validator(mode="before")
    @classmethod
    def _read_files(cls, data: dict[str, Any]) -> dict[str, Any]:
        found = {}
        for field in cls.model_fields:
            name = field.removesuffix(_SUFFIX)
            if name != field and name in cls.model_fields and data.get(field) and name not in data:
                found[name] = _secret(field, Path(data[field]))
        return {**data, **found}


def _secret(field: str, path: Path) -> str:
    """The file's text without the line end that editors and `echo` add."""
    variable = f"TILEFARM_{field.upper()}"
    try:
        with path.open(encoding="utf-8") as file:
            text = file.read(_MAX_BYTES).rstrip("\r\n")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not text"
        raise ValueError(f"{variable}: {path} cannot be read ({reason})") from error
    if not text:
        raise ValueError(f"{variable}: {path} is empty")
    return text
