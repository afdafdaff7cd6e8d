"""The worker's error tree: failures of the farm. A candidate's failure is an Outcome and never raised.

WorkerError
├── DeviceError         no such device here, or it is held by somebody else
├── DeviceUnwanted      nobody waits any more for a device that another process has
├── ReferenceFailed     no reference output could be computed for a workload
├── ArtifactRefused     the API does not take an artifact, or does not give it
├── ArtifactLost        what others built is no longer there: it is built again
├── ArtifactUnwanted    nobody waits for an artifact any more
├── KernelsMissing      a device without a compiler has nothing to test itself with, yet
├── DiskFull            the worker's disk has had no space for a while
├── ProbesError         the port for /metrics and the probes cannot be opened
├── ProgramError        inside a child: a module that cannot be built or run here
├── WorkerDeaf          its broker's messages do not reach it any more
├── ThreadDied          one of its background threads has ended by an exception
├── WorkDirShared       a worker of another container or host has the work directory
├── AnswerUnreadable    what answers in the API's place is not the API, or not one that it knows
└── JoinRefused         the API does not want this worker, or not any more
"""


class WorkerError(Exception):
    """Root of everything that the worker raises."""


class DeviceError(WorkerError):
    """The device is not here, cannot be served, or is held by another process."""


class DeviceUnwanted(WorkerError):  # noqa: N818 - named for what happened
    """Nobody waits any more for a device that another process times on."""


class ReferenceFailed(WorkerError):  # noqa: N818 - named for what happened
    """No reference output could be computed for a workload."""


class ArtifactRefused(WorkerError):  # noqa: N818 - named for what happened
    """The API does not take an artifact (it is too large), or does not give it."""


class ArtifactLost(WorkerError):  # noqa: N818 - named for what happened
    """What another worker built is no longer there."""


class ArtifactUnwanted(WorkerError):  # noqa: N818 - named for what happened
    """Nobody waits for an artifact any more."""


class KernelsMissing(WorkerError):  # noqa: N818 - named for what happened
    """A device without a compiler has nothing to test itself with, yet."""


class DiskFull(WorkerError):  # noqa: N818 - named for what happened
    """The worker's disk has had no space for a while: a chunk is left to others."""


class ProbesError(WorkerError):
    """The port for /metrics, /healthz and /readyz cannot be opened."""


class ProgramError(WorkerError):
    """A module, target or trace that cannot be built or run here."""


class WorkerDeaf(WorkerError):  # noqa: N818 - named for what happened
    """What the worker sends itself through the broker does not arrive."""


class ThreadDied(WorkerError):  # noqa: N818 - named for what happened
    """A background thread has ended by an exception: the worker is not whole without it."""


class WorkDirShared(WorkerError):  # noqa: N818 - named for what happened
    """A living worker of another container or host has the work directory, and would lose its files."""


class AnswerUnreadable(WorkerError):  # noqa: N818 - named for what happened
    """What the API answered is not what it answers: the request and the answer's beginning."""


class JoinRefused(WorkerError):  # noqa: N818 - named for what happened
    """The API refuses this worker: a wrong token, one that has expired, or an unknown target."""
