"""The worker's error tree: failures of the farm. A candidate's failure is an Outcome and never raised.

WorkerError
├── DeviceError         no such device here, or it is held by somebody else
├── ReferenceFailed     no reference output could be computed for a workload
├── ProbesError         the port for /metrics and the probes cannot be opened
├── ProgramError        inside a child: a module that cannot be built or run here
└── JoinRefused         the API does not want this worker
"""


class WorkerError(Exception):
    """Root of everything that the worker raises."""


class DeviceError(WorkerError):
    """The device is not here, cannot be served, or is held by another process."""


class ReferenceFailed(WorkerError):  # noqa: N818 - named for what happened
    """No reference output could be computed for a workload."""


class ProbesError(WorkerError):
    """The port for /metrics, /healthz and /readyz cannot be opened."""


class ProgramError(WorkerError):
    """A module, target or trace that cannot be built or run here."""


class JoinRefused(WorkerError):  # noqa: N818 - named for what happened
    """The API refused this worker for good: a wrong token, or an unknown target."""
