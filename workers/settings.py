"""The worker's settings, read once from TILEFARM_ variables."""

import os
import tempfile
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AnyHttpUrl, Field, SecretStr, field_validator
from pydantic_settings import NoDecode, SettingsConfigDict

from db.states import WorkerRole
from workers.secret_files import FileSettings


class WorkerSettings(FileSettings):
    """One worker: one device."""

    model_config = SettingsConfigDict(env_prefix="TILEFARM_", frozen=True, extra="ignore")

    #: Of the API that the worker joins.
    url: AnyHttpUrl = AnyHttpUrl("http://127.0.0.1:8765")
    #: With scope `worker`.
    token: SecretStr = SecretStr("")
    #: Overrides the broker that the API names.
    broker_url: str | None = None
    #: Files that hold them.
    token_file: Path | None = None
    broker_url_file: Path | None = None
    #: Artifacts and references; made if missing.
    work_dir: Path = Path(tempfile.gettempdir()) / f"tilefarm-worker-{os.getuid()}"
    #: Device locks; all users and containers of one host share it.
    lock_dir: Path = Path(tempfile.gettempdir()) / "tilefarm-locks"
    #: Target profiles that this worker serves, a comma list; empty: the profile of its own target.
    profiles: Annotated[tuple[str, ...], NoDecode] = ()
    #: Unique in the fleet; a join under the same name replaces the predecessor. None: host and device.
    worker_name: str | None = None
    worker_device: Literal["cpu", "cuda"] = "cpu"
    #: Which GPU, as NVIDIA's driver counts them from 0.
    worker_gpu: int = Field(default=0, ge=0)
    #: build: makes what others time; measure: times what others built; both: the whole.
    worker_role: WorkerRole = WorkerRole.BOTH
    #: Served instead of this device's own target, as JSON: {"kind": "llvm", "mcpu": .., "num-cores": ..}, or
    #: {"tag": "nvidia/nvidia-h100"}.
    worker_target: dict[str, Any] | None = None
    #: Of a kernel or reference that travels between workers.
    max_artifact_bytes: int = Field(default=64 << 20, gt=0)
    #: Cores to time on; None: all that this process may use.
    worker_cores: int | None = Field(default=None, ge=1)
    #: auto: `ld` where there is one; none: code is loaded in process.
    worker_linker: Literal["auto", "none"] = "auto"
    #: Linked kernels that are kept for the next process that times them.
    worker_max_artifacts: int = Field(default=512, ge=1)
    #: Built children that may wait for the device.
    worker_max_waiting: int = Field(default=32, ge=1, le=64)
    #: Between two self-tests of the idle device; 0: none.
    worker_selftest_secs: float = Field(default=600.0, ge=0)
    #: Relative slowness of the reference kernel beside its own history that puts the device into quarantine.
    worker_drift_limit: float = Field(default=0.15, gt=0)
    #: Between two messages that the worker sends itself through the broker; two unheard ones, and it starts
    #: again. 0: none.
    worker_canary_secs: float = Field(default=10.0, ge=0)
    #: Where /metrics, /healthz and /readyz are served; None: nowhere.
    worker_metrics_port: int | None = Field(default=None, ge=0, le=65535)
    metrics_host: str = "127.0.0.1"
    reference_timeout_secs: float = Field(default=60.0, gt=0)
    reference_cache_bytes: int = Field(default=2 << 30, ge=0)
    #: How long outcomes are offered to a broker that does not answer.
    publish_timeout_secs: float = Field(default=120.0, gt=0)

    @field_validator("profiles", mode="before")
    @classmethod
    def _split(cls, value: object) -> object:
        if isinstance(value, str):
            return tuple(name.strip() for name in value.split(",") if name.strip())
        return value
