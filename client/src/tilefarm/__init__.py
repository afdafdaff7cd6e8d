"""tilefarm: tuned schedules from a farm, for any compiler that uses Apache TVM's MetaSchedule.

The public surface is exactly `__all__`. TVM is imported only by what needs it, when it is called; what no
compile needs, when somebody names it.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from tilefarm.connect import connect
from tilefarm.errors import (
    AuthError,
    BadAnswerError,
    CannotTravelError,
    ConnectError,
    DeadlineError,
    ExportError,
    ImportFilesError,
    JobFailedError,
    LockError,
    MissingExtraError,
    ModuleError,
    NotConfiguredError,
    OfflineError,
    ProblemError,
    ServiceError,
    SignatureError,
    TargetError,
    TilefarmError,
    TraceError,
    TvmPairError,
)
from tilefarm.miss import Miss
from tilefarm.stats import Stats
from tilefarm.version import VERSION

if TYPE_CHECKING:
    from tilefarm.client import Client, Limits
    from tilefarm.database import RemoteDatabase
    from tilefarm.frontends import from_onnx, from_torch
    from tilefarm.jobs import Job
    from tilefarm.model_tuning import tune_relax
    from tilefarm.tune import submit, tune_tir
    from tilefarm.union import OrderedUnionDatabase

__version__ = VERSION

__all__ = [
    "AuthError",
    "BadAnswerError",
    "CannotTravelError",
    "Client",
    "ConnectError",
    "DeadlineError",
    "ExportError",
    "ImportFilesError",
    "Job",
    "JobFailedError",
    "Limits",
    "LockError",
    "Miss",
    "MissingExtraError",
    "ModuleError",
    "NotConfiguredError",
    "OfflineError",
    "OrderedUnionDatabase",
    "ProblemError",
    "RemoteDatabase",
    "ServiceError",
    "SignatureError",
    "Stats",
    "TargetError",
    "TilefarmError",
    "TraceError",
    "TvmPairError",
    "__version__",
    "connect",
    "from_onnx",
    "from_torch",
    "submit",
    "tune_relax",
    "tune_tir",
]


_MODULES = {
    "Client": "client",
    "Job": "jobs",
    "Limits": "client",
    "OrderedUnionDatabase": "union",
    "RemoteDatabase": "database",
    "from_onnx": "frontends",
    "from_torch": "frontends",
    "submit": "tune",
    "tune_relax": "model_tuning",
    "tune_tir": "tune",
}


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = getattr(import_module(f"tilefarm.{_MODULES[name]}"), name)
    globals()[name] = found
    return found
