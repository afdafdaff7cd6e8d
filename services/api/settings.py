"""The settings of the API role, read once from TILEFARM_* variables; nothing else reads the environment."""

from pathlib import Path

from pydantic import Field
from pydantic_settings import SettingsConfigDict

from services.database_url import DatabaseUrl
from workers.secret_files import FileSettings

#: Where the API listens, and where a worker looks for it, unless told otherwise.
DEFAULT_PORT = 8765


class ApiSettings(FileSettings):
    """Every limit of the API."""

    model_config = SettingsConfigDict(env_prefix="TILEFARM_", frozen=True)

    database_url: DatabaseUrl
    #: Given to workers when they join; where it is None, /readyz does not ask a broker.
    broker_url: str | None = None
    #: Files that hold them.
    database_url_file: Path | None = None
    broker_url_file: Path | None = None
    host: str = "127.0.0.1"
    port: int = DEFAULT_PORT
    #: Of a statement on PostgreSQL; then its request is answered 503.
    database_timeout_secs: float = Field(default=10.0, ge=1)
    #: Where children keep their private directories; the system's temp directory where it is None.
    work_dir: Path | None = None

    #: Of a request, also after decompression.
    max_body_bytes: int = Field(default=4 << 20, gt=0)
    #: Of what one worker builds for another (a kernel, a reference), before it is compressed.
    max_artifact_bytes: int = Field(default=64 << 20, gt=0)
    #: Of all requests that one process holds; beyond it they are answered 503.
    max_bodies_bytes: int = Field(default=256 << 20, gt=0)
    #: Until a body has come as a whole; then 408.
    body_timeout_secs: float = Field(default=120.0, gt=0)
    max_trials: int = Field(default=1_000_000, gt=0)
    #: Where a job names no budget.
    default_max_trials: int = Field(default=256, gt=0)
    max_lookup_workloads: int = Field(default=1000, gt=0)
    max_functions: int = Field(default=500, gt=0)
    #: In flight at the same time in one process, submissions apart; more are answered 503.
    max_requests: int = Field(default=64, gt=0)
    max_submissions: int = Field(default=8, gt=0)
    #: Threads that work on them, beside one for each submission; the others of those in flight wait for a
    #: turn. Many threads of one interpreter are slower than few, and each holds a database connection.
    max_threads: int = Field(default=4, gt=0)

    #: The validator child: processor time, memory, and how long a request waits for its turn or answer.
    intake_cpu_secs: float = Field(default=10.0, gt=0)
    intake_memory_bytes: int = Field(default=2 << 30, gt=0)
    intake_timeout_secs: float = Field(default=60.0, gt=0)
    #: The same for a model, which is lowered there: what can be folded is compiled and run.
    intake_model_cpu_secs: float = Field(default=50.0, gt=0)
    intake_model_memory_bytes: int = Field(default=4 << 30, gt=0)
    #: Children at the same time.
    intake_children: int = Field(default=2, gt=0)

    #: How often workers are to send a heartbeat; after how long a silence they count as stale, or dead.
    heartbeat_secs: float = Field(default=2.0, gt=0)
    stale_after_secs: float = Field(default=6.0, gt=0)
    #: The tuner service has a setting of the same name, and acts on it.
    dead_after_secs: float = Field(default=10.0, gt=0)

    #: Server-sent events: how often rows are looked at, and how often a silent stream says that it lives.
    events_poll_secs: float = Field(default=0.5, gt=0)
    events_heartbeat_secs: float = Field(default=10.0, gt=0)
    max_event_streams: int = Field(default=500, gt=0)

    #: What /metrics counts in rows is at most so old, however many ask.
    metrics_rows_secs: float = Field(default=5.0, ge=0)

    #: Seconds of one trial, where nothing has been measured lately, and of a search's start.
    default_trial_secs: float = Field(default=0.35, gt=0)
    search_start_secs: float = Field(default=15.0, ge=0)

    @property
    def threads(self) -> int:
        """Of one process, at most."""
        return self.max_threads + self.max_submissions
