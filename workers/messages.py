"""What travels between the tuner service and the workers: versioned, frozen, JSON only.

A message is a doorbell: it may be lost or doubled at any time. It carries durations, never clock times.
Big texts (modules, traces) travel as base64 of zlib. An unknown version is refused with MessageError.
"""

import base64
import binascii
import dataclasses
import hashlib
import re
import zlib
from dataclasses import dataclass
from typing import Any, Self, TypeVar

from db.states import Outcome, Purpose

_M = TypeVar("_M")
SHA256 = re.compile(r"[0-9a-f]{64}")

VERSION = 2
#: No packed text may grow beyond this when unpacked (a module is 19-37 KB, a trace 2-4 KB).
MAX_TEXT_BYTES = 16 << 20

#: Of the error text of an outcome.
MAX_ERROR_CHARS = 4000
#: Begins the error of a trial whose workload has no reference output: its whole search fails with it.
REFERENCE_ERROR = "reference:"


class MessageError(ValueError):
    """A message could not be read: {0}."""


def pack_text(text: str) -> str:
    """Base64 of zlib of UTF-8."""
    return base64.b64encode(zlib.compress(text.encode(), 6)).decode()


def unpack_text(packed: str, *, max_bytes: int = MAX_TEXT_BYTES) -> str:
    try:
        inflater = zlib.decompressobj()
        data = inflater.decompress(base64.b64decode(packed, validate=True), max_bytes)
        if inflater.unconsumed_tail:
            raise MessageError(f"a packed text is larger than {max_bytes} bytes")
        return data.decode()
    except (binascii.Error, zlib.error, UnicodeDecodeError) as error:
        raise MessageError(f"a packed text does not unpack: {error}") from error


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasurePolicy:
    """How candidates are built and timed; stored with each number it produced.

    Names as in TVM MetaSchedule's EvaluatorConfig where they mean the same.
    """

    #: Calls per repeat at least; run_secs holds the mean of each repeat.
    number: int = 1
    #: Repeats at least and at most; between them it stops when the standard error is small.
    min_repeat: int = 3
    max_repeat: int = 20
    #: A repeat lasts at least so long (number grows).
    min_repeat_ms: float = 2.0
    #: Repeats stop when the relative standard error of the mean is below this.
    target_relative_error: float = 0.02
    #: After `min_repeat` repeats they stop in any case when they have taken so long.
    max_measure_ms: float = 60.0
    #: A candidate whose fastest repeat is slower than this multiple of the search's best is known well enough
    #: after two repeats.
    clearly_slower_ratio: float = 2.0
    #: The relative error may be larger for what is slower than the search's best, by this share of its
    #: relative distance: what takes half as long again need not be known to a fiftieth.
    distance_error_share: float = 0.2
    #: A cold probe slower than this multiple of the search's best ends the trial (cut_off).
    cut_off_ratio: float = 6.0
    #: Nothing below this is cut off: to start the threads of a kernel of a microsecond takes thirty times as
    #: long, and measuring it in full costs nothing.
    least_cut_off_ms: float = 0.2
    #: A run is stopped under way no earlier than this: the first one pays page faults, cold caches and other
    #: processes' time slices.
    least_alarm_ms: float = 20.0
    build_timeout_secs: float = 10.0
    #: A build ends sooner where it takes this multiple of the search's median build, and no less than
    #: slow_build_secs: what the compiler chews on so long is slow code.
    slow_build_ratio: float = 4.0
    slow_build_secs: float = 1.0
    run_timeout_secs: float = 10.0
    memory_limit_bytes: int = 2 << 30
    flush_cache: bool = False
    #: Seed of the input generator, with the workload's hash.
    input_seed: int = 0
    #: Integer inputs are drawn from [low, high).
    integer_low: int = 0
    integer_high: int = 8
    #: (position, low, high) of integer parameters that have a range of their own, such as indices.
    input_ranges: tuple[tuple[int, int, int], ...] = ()
    #: Fresh processes for each side of a confirmation.
    confirm_processes: int = 3

    @classmethod
    def from_json(cls, obj: dict[str, Any]) -> Self:
        fields = dict(obj)
        try:
            ranges = [(int(position), int(low), int(high)) for position, low, high in fields["input_ranges"]]
        except (TypeError, ValueError) as error:
            raise MessageError(f"the policy's input_ranges do not read: {error}") from error
        except KeyError:
            return _from_json(cls, fields)
        return _from_json(cls, {**fields, "input_ranges": tuple(ranges)})


@dataclass(frozen=True, slots=True, kw_only=True)
class Built:
    """What a build worker made of a trial: SHA-256 (hex) of artifacts, which the API keeps for a while."""

    #: The linked kernel.
    kernel: str
    #: Of the incumbent, where the order names one.
    incumbent: str | None = None
    #: Expected outputs of the workload.
    reference: str

    @classmethod
    def from_json(cls, obj: Any) -> Self:
        if not isinstance(obj, dict):
            raise MessageError("what was built is no JSON object")
        built = _from_json(cls, obj)
        for digest in (built.kernel, built.incumbent, built.reference):
            if digest is not None and not (isinstance(digest, str) and SHA256.fullmatch(digest)):
                raise MessageError("an artifact's name is no SHA-256 in hex")
        return built


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialOrder:
    """One trial of a chunk."""

    trial_id: int
    attempt: int
    #: Whose trial it is; it goes into logs.
    task_id: int = 0
    purpose: Purpose
    #: Packed trace JSON; the empty trace for a baseline.
    trace: str
    #: Packed trace JSON of the incumbent, for a confirmation against a record.
    incumbent_trace: str | None = None
    #: What it is timed from, by a worker that only measures.
    built: Built | None = None

    @classmethod
    def from_json(cls, obj: dict[str, Any]) -> Self:
        built = obj.get("built")
        return _from_json(cls, {**obj, "built": None if built is None else Built.from_json(built)})


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasureChunk:
    """Trials of one search for one worker: the argument of the steps `tilefarm.measure` and `.build`."""

    chunk_id: str
    search_id: int
    #: All its trials are of one job.
    job_id: str = ""
    #: Canonical target dict.
    target: dict[str, Any]
    #: Packed canonical module JSON, and the SHA-256 (hex) of its text.
    module: str
    module_sha256: str
    policy: MeasurePolicy
    trials: tuple[TrialOrder, ...]
    #: Best latency of the search so far, seconds; None while nothing is known: no cut-off.
    best_latency_secs: float | None = None
    version: int = VERSION

    def as_json(self) -> dict[str, Any]:
        return dataclasses.asdict(self)

    @classmethod
    def from_json(cls, obj: dict[str, Any]) -> Self:
        _check_version(obj)
        fields = dict(obj)
        try:
            fields["policy"] = MeasurePolicy.from_json(fields["policy"])
            fields["trials"] = tuple(TrialOrder.from_json(trial) for trial in fields["trials"])
        except KeyError as error:
            raise MessageError(f"MeasureChunk lacks {error}") from error
        return _from_json(cls, fields)


def checked_module(chunk: MeasureChunk) -> str:
    """The text of the chunk's module; raises MessageError where it is not what its hash says."""
    text = unpack_text(chunk.module)
    digest = hashlib.sha256(text.encode()).hexdigest()
    if digest != chunk.module_sha256:
        raise MessageError(f"the module's hash is {digest}, not {chunk.module_sha256}")
    return text


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialStarted:
    """A worker began this attempt. Sent on the `results` queue as {"kind": "started", ..}."""

    trial_id: int
    attempt: int
    worker_id: str
    version: int = VERSION

    def as_json(self) -> dict[str, Any]:
        return {"kind": "started", **dataclasses.asdict(self)}

    @classmethod
    def from_json(cls, obj: dict[str, Any]) -> Self:
        _check_version(obj)
        return _from_json(cls, {k: v for k, v in obj.items() if k != "kind"})


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialOutcome:
    """What became of an attempt. Sent on the `results` queue as {"kind": "outcome", ..}."""

    trial_id: int
    attempt: int
    worker_id: str
    outcome: Outcome
    #: One float (seconds) per repeat where something was measured (ok, cut_off), else None.
    run_secs: tuple[float, ...] | None = None
    #: Of the incumbent, where the order named one.
    incumbent_run_secs: tuple[float, ...] | None = None
    #: At most 4,000 characters.
    error: str | None = None
    #: Seconds by stage: start, replay, build, load, check, measure, wait, end.
    stage_secs: dict[str, float] = dataclasses.field(default_factory=dict)
    device_class: str = ""
    tvm_version: str = ""
    version: int = VERSION

    def as_json(self) -> dict[str, Any]:
        return {"kind": "outcome", **dataclasses.asdict(self)}

    @classmethod
    def from_json(cls, obj: dict[str, Any]) -> Self:
        _check_version(obj)
        return _from_json(cls, {k: v for k, v in obj.items() if k != "kind"})


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialBuilt:
    """A build worker built this attempt's trial. Sent on the `results` queue as {"kind": "built", ..}."""

    trial_id: int
    attempt: int
    worker_id: str
    built: Built
    #: Seconds by stage: start, replay, build, end.
    stage_secs: dict[str, float] = dataclasses.field(default_factory=dict)
    version: int = VERSION

    def as_json(self) -> dict[str, Any]:
        return {"kind": "built", **dataclasses.asdict(self)}

    @classmethod
    def from_json(cls, obj: dict[str, Any]) -> Self:
        _check_version(obj)
        fields = {k: v for k, v in obj.items() if k != "kind"}
        return _from_json(cls, {**fields, "built": Built.from_json(fields.get("built"))})


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialUnbuilt:
    """What was built of this trial is gone, or its worker ends. On `results`: {"kind": "unbuilt", ..}."""

    trial_id: int
    attempt: int
    worker_id: str
    #: Which artifact, and what is wrong with it; or that the worker ends.
    reason: str = ""
    version: int = VERSION

    def as_json(self) -> dict[str, Any]:
        return {"kind": "unbuilt", **dataclasses.asdict(self)}

    @classmethod
    def from_json(cls, obj: dict[str, Any]) -> Self:
        _check_version(obj)
        return _from_json(cls, {k: v for k, v in obj.items() if k != "kind"})


#: What a worker tells of an attempt.
Result = TrialStarted | TrialBuilt | TrialUnbuilt | TrialOutcome
_KINDS: dict[Any, type[Result]] = {
    "started": TrialStarted,
    "built": TrialBuilt,
    "unbuilt": TrialUnbuilt,
    "outcome": TrialOutcome,
}


def result_from_json(obj: dict[str, Any]) -> Result:
    """A message of the `results` queue."""
    kind = _KINDS.get(obj.get("kind"))
    if kind is None:
        raise MessageError(f"unknown kind of result {obj.get('kind')!r}")
    return kind.from_json(obj)


def _check_version(obj: dict[str, Any]) -> None:
    if obj.get("version") != VERSION:
        raise MessageError(f"message version {obj.get('version')!r} is not {VERSION}")


def _from_json(cls: type[_M], obj: dict[str, Any]) -> _M:
    """Build a message from its fields; an unknown or missing field is a MessageError, enums are restored."""
    fields = dict(obj)
    try:
        if "outcome" in fields:
            fields["outcome"] = Outcome(fields["outcome"])
        if "purpose" in fields:
            fields["purpose"] = Purpose(fields["purpose"])
        for name in ("run_secs", "incumbent_run_secs"):
            if fields.get(name) is not None:
                fields[name] = tuple(float(secs) for secs in fields[name])
        return cls(**fields)
    except (TypeError, ValueError) as error:
        raise MessageError(f"{cls.__name__} does not read: {error}") from error
