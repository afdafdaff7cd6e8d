"""Settings of the tuner service, read once from TILEFARM_* variables. All its limits stand here."""

from pathlib import Path

from pydantic import Field, SecretStr, field_validator
from pydantic_settings import SettingsConfigDict

from services.database_url import DatabaseUrl
from services.signing import Signer
from workers.secret_files import FileSettings


class TunerSettings(FileSettings):
    model_config = SettingsConfigDict(env_prefix="TILEFARM_", frozen=True)

    database_url: DatabaseUrl
    broker_url: str
    #: Files that hold them.
    database_url_file: Path | None = None
    broker_url_file: Path | None = None
    #: PEM of the Ed25519 key that signs published records; None: they stay unsigned.
    signing_key: SecretStr | None = None
    signing_key_file: Path | None = None

    #: Where /metrics, /healthz and /readyz are served; None: nowhere.
    tuner_metrics_port: int | None = Field(default=None, ge=0, le=65535)
    metrics_host: str = "127.0.0.1"
    #: /healthz fails after so long without a whole tick; a database that is away is none of its business.
    stuck_secs: float = Field(default=60.0, gt=0)

    #: Pause between two ticks of the loop.
    tick_secs: float = Field(default=0.15, gt=0)
    #: Of a statement on PostgreSQL; then the database counts as away.
    database_timeout_secs: float = Field(default=30.0, ge=1)
    #: Pause after a tick that could not reach the database; doubles up to the second.
    outage_secs: float = Field(default=0.5, gt=0)
    outage_max_secs: float = Field(default=10.0, gt=0)

    #: A lease expires so long after its last renewal, which happens at a third of it.
    lease_secs: float = Field(default=8.0, gt=0)
    #: Searches that one replica leases, and of others those that nobody took within a third of lease_secs.
    max_leases: int = Field(default=64, gt=0)

    #: Live search children of one replica.
    max_children: int = Field(default=3, gt=0)
    child_idle_secs: float = Field(default=60.0, gt=0)
    child_address_space_bytes: int = Field(default=6 << 30, gt=0)
    open_timeout_secs: float = Field(default=180.0, gt=0)
    suggest_timeout_secs: float = Field(default=300.0, gt=0)
    #: Deaths of a search's child in a row after which the search fails.
    max_crashes: int = Field(default=3, gt=0)
    #: Traces of the best so many results go to a child that opens a search.
    known_traces: int = Field(default=128, gt=0)

    #: Candidates of a round, and of the first few, unless the search's options say otherwise. Small, because
    #: a round learns only from the rounds up to the one before last; not too small, because each costs a
    #: training, a confirmation where it found something, and a device's wait for its last build.
    #: Rounds that are chosen without any result (the first two) are half of `first_batch_size`.
    batch_size: int = Field(default=32, gt=0)
    first_batch_size: int = Field(default=16, gt=0)
    first_rounds: int = Field(default=4, ge=0)
    #: How many rounds back a round may learn from where devices would run dry otherwise; 2: never further.
    max_round_lag: int = Field(default=8, ge=2)
    #: Rounds in a row without a new candidate after which a space counts as exhausted.
    empty_rounds: int = Field(default=3, gt=0)

    #: Trials of a chunk while nothing is known of their time, at least and at most.
    chunk_size: int = Field(default=16, gt=0)
    chunk_size_min: int = Field(default=4, gt=0)
    chunk_size_max: int = Field(default=32, gt=0)
    #: A chunk aims at so much work, counted over all its processes. Within a chunk devices wait for the last
    #: build before they measure: small ones cost time.
    chunk_secs: float = Field(default=12.0, gt=0)
    #: Chunks outstanding for each live device of a target.
    chunks_per_device: int = Field(default=2, gt=0)
    #: How long a connection to the broker may take, and an answer of it.
    broker_timeout_secs: float = Field(default=3.0, gt=0)
    #: Results that a replica took and did not acknowledge are delivered again after so long, to any replica.
    results_redeliver_secs: float = Field(default=30.0, gt=0)
    #: Pause of dispatching after the broker could not be reached.
    broker_retry_secs: float = Field(default=1.0, gt=0)

    #: A worker without a heartbeat for so long is dead.
    dead_after_secs: float = Field(default=10.0, gt=0)
    #: Slack of a dispatched trial's deadline, beside the time limits of the trials before it.
    deadline_secs: float = Field(default=30.0, gt=0)
    #: A dispatched trial that nobody holds while a worker of its target is idle is rung again after so long.
    unheard_secs: float = Field(default=10.0, gt=0)
    #: An outcome is lost when its worker let go of the trial and nothing came for so long.
    outcome_secs: float = Field(default=5.0, gt=0)
    reconcile_secs: float = Field(default=1.0, gt=0)
    #: Workers that died over a trial, after which the farm gives it up.
    max_started_attempts: int = Field(default=3, gt=0)

    #: What a build worker made and nobody stored or asked for within so long is dropped; it is made anew.
    artifact_secs: float = Field(default=3600.0, gt=0)

    #: The best so many are measured again before a task ends. Of eight searches on a busy two-core host the
    #: choice among three came within 5 % of the best of twelve in the mean, among five within 3 %.
    confirm_count: int = Field(default=5, gt=0)
    #: While a job runs, the best is confirmed when it is below this fraction of the published latency.
    confirm_early_ratio: float = Field(default=0.95, gt=0, le=1)

    #: A job's revision rises at most once in so long, ends and changes of state aside.
    revision_secs: float = Field(default=0.5, ge=0)

    @field_validator("signing_key")
    @classmethod
    def _is_a_key(cls, pem: SecretStr | None) -> SecretStr | None:
        if pem is not None:
            Signer.of_pem(pem.get_secret_value())
        return pem
