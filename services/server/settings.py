"""Settings of the server's own commands (db, token, up); each role has its own beside its code."""

from pathlib import Path

from pydantic import Field
from pydantic_settings import SettingsConfigDict

from services.database_url import DatabaseUrl
from workers.secret_files import FileSettings


class ServerSettings(FileSettings):
    """Read once from TILEFARM_* variables."""

    model_config = SettingsConfigDict(env_prefix="TILEFARM_", frozen=True)

    #: `sqlite:///path` or `postgresql+psycopg://…`; None: the embedded service's database.
    database_url: DatabaseUrl | None = None
    #: A file that holds it.
    database_url_file: Path | None = None
    #: Data directory of the embedded service.
    data_dir: Path | None = None
    #: Of each log file of the embedded service; what is full is put aside.
    log_max_bytes: int = Field(default=16 << 20, ge=1 << 16)
    #: Of each of its processes, the one that is written included.
    log_max_files: int = Field(default=5, ge=2, le=1000)
    xdg_data_home: Path | None = Field(default=None, validation_alias="XDG_DATA_HOME")

    def embedded_dir(self) -> Path:
        """TILEFARM_DATA_DIR, else `tilefarm` in the user's XDG data directory."""
        if self.data_dir is not None:
            return self.data_dir
        return (self.xdg_data_home or Path.home() / ".local" / "share") / "tilefarm"

    def require_database_url(self) -> str:
        return self.database_url or f"sqlite:///{self.embedded_dir() / 'tilefarm.db'}"
