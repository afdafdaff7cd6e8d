"""The client's settings, read once from the environment. Nothing else of the client reads it.

TILEFARM_URL, TILEFARM_TOKEN, TILEFARM_TIMEOUT_SECS, TILEFARM_CACHE_DIR, TILEFARM_CACHE_MAX_BYTES,
TILEFARM_LOCK, TILEFARM_PUBLIC_KEY, TILEFARM_DATA_DIR. Where URL and token are unset, they come from the
`connection.json` that the embedded service leaves in its data directory.
"""

import json
import math
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from tilefarm.cache import DEFAULT_MAX_BYTES
from tilefarm.errors import NotConfiguredError

DEFAULT_TIMEOUT_SECS = 10.0
_NO_SERVICE = (
    "no tilefarm service is named: pass a URL, set TILEFARM_URL (and TILEFARM_TOKEN), "
    "or start one on this machine with `tilefarm-server up`"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    #: Base URL of the service, without a trailing slash; None while no service is known.
    url: str | None
    token: str | None
    #: What one question to the service may take altogether.
    timeout_secs: float
    #: Where answers, statistics and missed modules are kept; the latter so that a miss can name a command.
    cache_dir: Path
    #: What kept answers may take; 0 keeps none.
    cache_max_bytes: int
    #: The lock file that alone answers; None where the service does.
    lock: Path | None
    #: Keys that records must be signed by, as text: one a line, or between commas; None: none is asked for.
    public_key: str | None
    #: Data directory of the embedded service.
    data_dir: Path

    @classmethod
    def load(
        cls,
        *,
        url: str | None = None,
        token: str | None = None,
        timeout_secs: float | None = None,
        cache_dir: str | os.PathLike[str] | None = None,
        lock: str | os.PathLike[str] | None = None,
        environ: Mapping[str, str] | None = None,
    ) -> "Settings":
        """Arguments win over the environment, which wins over the embedded service's connection.json.

        A token that comes from connection.json is only ever sent to the URL that stands beside it.
        """
        env = os.environ if environ is None else environ
        data_dir = _data_dir(env)
        chosen_lock = lock or env.get("TILEFARM_LOCK")
        url = _clean_url(url or env.get("TILEFARM_URL"))
        token = _clean_token(token or env.get("TILEFARM_TOKEN"))
        if url is None or token is None:
            known_url, known_token = _read_connection(data_dir)
            url = url or known_url
            if token is None and url == known_url:
                token = known_token
        return cls(
            url=url,
            token=token,
            timeout_secs=_timeout(timeout_secs, env),
            cache_dir=Path(cache_dir).expanduser()
            if cache_dir is not None
            else _dir(env, "TILEFARM_CACHE_DIR", "XDG_CACHE_HOME", ".cache"),
            cache_max_bytes=_max_bytes(env),
            lock=Path(chosen_lock).expanduser() if chosen_lock else None,
            public_key=env.get("TILEFARM_PUBLIC_KEY") or None,
            data_dir=data_dir,
        )

    def require_url(self) -> str:
        if self.url is None:
            raise NotConfiguredError(_NO_SERVICE)
        return self.url


def _data_dir(env: Mapping[str, str]) -> Path:
    return _dir(env, "TILEFARM_DATA_DIR", "XDG_DATA_HOME", ".local/share")


def _dir(env: Mapping[str, str], own: str, xdg: str, fallback: str) -> Path:
    if env.get(own):
        return Path(env[own]).expanduser()
    if env.get(xdg):
        return Path(env[xdg]) / "tilefarm"
    home = Path(env["HOME"]) if env.get("HOME") else Path("~").expanduser()
    return home / fallback / "tilefarm"


def _clean_url(url: str | None) -> str | None:
    if not url:
        return None
    if not url.startswith(("http://", "https://")):
        raise NotConfiguredError(f"the service's URL must start with http:// or https://, not {url!r}")
    try:
        host = urlsplit(url).hostname
    except ValueError:
        host = None
    if not host:
        raise NotConfiguredError(f"the service's URL names no host: {url!r}")
    return url.rstrip("/")


def _clean_token(token: str | None) -> str | None:
    """Without the line end that a file or a paste brings. The token itself is in no message."""
    token = (token or "").strip()
    if not (token.isascii() and token.isprintable()):
        raise NotConfiguredError("the token (TILEFARM_TOKEN) holds characters that no token has")
    return token or None


def _timeout(given: float | None, env: Mapping[str, str]) -> float:
    text = env.get("TILEFARM_TIMEOUT_SECS")
    try:
        secs = given if given is not None else float(text) if text else DEFAULT_TIMEOUT_SECS
    except ValueError as error:
        raise NotConfiguredError(f"TILEFARM_TIMEOUT_SECS={text!r} is not a number of seconds") from error
    if not (math.isfinite(secs) and secs > 0):
        raise NotConfiguredError(f"the time-out must be a positive number of seconds, not {secs!r}")
    return secs


def _max_bytes(env: Mapping[str, str]) -> int:
    text = env.get("TILEFARM_CACHE_MAX_BYTES") or str(DEFAULT_MAX_BYTES)
    if not text.isdecimal():
        raise NotConfiguredError(f"TILEFARM_CACHE_MAX_BYTES={text!r} is not a number of bytes")
    return int(text)


def _read_connection(data_dir: Path) -> tuple[str | None, str | None]:
    path = data_dir / "connection.json"
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None, None
    except (OSError, ValueError) as error:
        raise NotConfiguredError(f"{path} does not read: {error}") from error
    if not isinstance(found, dict) or not isinstance(found.get("url"), str):
        raise NotConfiguredError(f"{path} names no url")
    token = found.get("token")
    return _clean_url(found["url"]), token if isinstance(token, str) else None
