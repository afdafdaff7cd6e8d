"""The closed sets of the rows: states, outcomes, purposes. Standard library only, so that workers may use it.

It knows no transition: those stand with the queries that make them.
"""

from enum import StrEnum
from typing import Self


class Stored(StrEnum):
    """What columns hold: written by this release's code as a member, read by `of`."""

    @classmethod
    def of(cls, stored: str) -> Self:
        """The member; of what only a newer release knows, one that equals none and is shown as it stands.

        During a rolling upgrade rows of both releases stand in one table: no reader may fail at them.
        """
        if stored in cls._value2member_map_:
            return cls(stored)
        other = str.__new__(cls, stored)
        other._name_ = other._value_ = stored
        return other

    def __deepcopy__(self, _memo: object) -> Self:
        """Itself: Python before 3.11.4 copies a member by its name, and the other has none in its class."""
        return self


class JobState(Stored):
    QUEUED = "queued"
    RUNNING = "running"
    PAUSED = "paused"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"

    @property
    def ended(self) -> bool:
        return self in _ENDED_JOBS


_ENDED_JOBS = frozenset({JobState.SUCCEEDED, JobState.FAILED, JobState.CANCELLED})


class DesiredState(Stored):
    """What the user asked of a job; the API writes it, the tuner service follows it."""

    RUNNING = "running"
    PAUSED = "paused"
    CANCELLED = "cancelled"


class TaskState(Stored):
    QUEUED = "queued"
    RUNNING = "running"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"

    @property
    def ended(self) -> bool:
        return self in _ENDED_TASKS


_ENDED_TASKS = frozenset({TaskState.SUCCEEDED, TaskState.FAILED, TaskState.CANCELLED})


class SearchState(Stored):
    ACTIVE = "active"
    #: The space has no candidate left that is not known: a success.
    EXHAUSTED = "exhausted"
    #: The search cannot go on (its child died again and again, or no reference could be computed).
    FAILED = "failed"


class TrialState(Stored):
    QUEUED = "queued"
    DISPATCHED = "dispatched"
    #: It has an Outcome.
    DONE = "done"
    #: The farm gave up (`worker_lost`).
    FAILED = "failed"
    CANCELLED = "cancelled"


#: States of a trial that waits for its Outcome.
OPEN_TRIALS = (TrialState.QUEUED, TrialState.DISPATCHED)


class Purpose(Stored):
    """Why a trial is measured. Only `search` is charged to a job's budget."""

    SEARCH = "search"
    #: The untuned module: the empty trace.
    BASELINE = "baseline"
    #: A second measurement, interleaved with the incumbent, before publication.
    CONFIRM = "confirm"


class Outcome(Stored):
    OK = "ok"
    #: Stopped at the cut-off: slower than a multiple of the search's best; a censored label, never a record.
    CUT_OFF = "cut_off"
    BUILD_ERROR = "build_error"
    BUILD_TIMEOUT = "build_timeout"
    RUN_ERROR = "run_error"
    RUN_TIMEOUT = "run_timeout"
    WRONG_OUTPUT = "wrong_output"
    #: The trace does not replay on the workload.
    REJECTED = "rejected"
    #: Given up after several started attempts; written by the tuner service, never by a worker.
    WORKER_LOST = "worker_lost"


class RecordState(Stored):
    PUBLISHED = "published"
    VERIFIED = "verified"
    QUARANTINED = "quarantined"
    REVOKED = "revoked"


class WorkerRole(Stored):
    """What of a trial a worker does; one queue for each target and role."""

    #: Builds and times.
    BOTH = "both"
    #: Builds what others time.
    BUILD = "build"
    #: Times what others built.
    MEASURE = "measure"


class WorkerState(Stored):
    """`stale` and `dead` are not stored: they are read from heartbeat_at by database time."""

    RUNNING = "running"
    DRAINING = "draining"
    #: By itself: its device has become slower than it was. It takes nothing, and returns when it is well.
    QUARANTINED = "quarantined"
    LEFT = "left"
