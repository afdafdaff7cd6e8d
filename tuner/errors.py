"""The tuner's error tree. A child answers each of these by name; none of them ends the child.

TunerError
├── WorkloadError     a module that cannot be tuned, with the function and the cause
├── UnknownTargetError
├── SpaceError        a submitted design space that does not fit its workload
├── TraceError        a trace that cannot be applied
└── RequestError      a request that a child does not understand
"""


class TunerError(Exception):
    """The root of everything the tuner raises on purpose."""

    def __init__(self, detail: str, *, code: str = "tuner_error") -> None:
        super().__init__(detail)
        self.code = code
        self.detail = detail


class WorkloadError(TunerError):
    """A module that cannot be tuned; `function` is None where the whole module is at fault."""

    def __init__(self, detail: str, *, code: str, function: str | None = None) -> None:
        super().__init__(detail, code=code)
        self.function = function


class UnknownTargetError(TunerError):
    """A tag, kind or CPU that TVM or LLVM does not know; code unknown_target or unknown_mcpu."""


class SpaceError(TunerError):
    """A submitted design space that does not fit its workload."""

    def __init__(self, detail: str) -> None:
        super().__init__(detail, code="bad_space")


class TraceError(TunerError):
    """A trace that does not parse or cannot be applied to its module."""

    def __init__(self, detail: str) -> None:
        super().__init__(detail, code="bad_trace")


class RequestError(TunerError):
    """A request that lacks a field, or names an operation that does not exist."""

    def __init__(self, detail: str) -> None:
        super().__init__(detail, code="bad_request")
