"""Every error that the client raises, drawn once.

TilefarmError
 ├── NotConfiguredError      no service is named, or a setting does not read
 │    ├── LockError          a lock file does not read, or cannot be written
 │    └── TvmPairError       this TVM with this tvm-ffi is known to crash
 ├── ExportError             what was to be exported cannot be written
 ├── ImportFilesError        what was to be imported is not there
 ├── MissingExtraError       a front end's framework is not installed
 ├── ServiceError            something between us and an answer
 │    ├── ConnectError       the service cannot be reached
 │    ├── DeadlineError      the time allowed ran out
 │    ├── OfflineError       the answer would take a request, and mode is "offline"
 │    ├── AuthError          the token is missing, wrong, or lacks the scope
 │    ├── ProblemError       the service refused, with a stable code (problem+json)
 │    └── BadAnswerError     what came back is not what this client understands
 ├── ModuleError             the module cannot be tuned or looked up
 ├── TargetError             the target is not one that the service tunes for
 ├── TraceError              a trace is not one that a schedule may contain
 ├── SignatureError          a record is not signed by a key that is trusted
 ├── CannotTravelError       an argument of `tune_tir` or `tune_relax` that means something only here
 └── JobFailedError          the job ended without a result

A lookup inside a compile raises none of these: it answers None and says why (tilefarm.database).
"""

from collections.abc import Mapping, Sequence
from typing import Any


class TilefarmError(Exception):
    """The root of the tree."""


class NotConfiguredError(TilefarmError):
    """No service is named, or a setting does not read."""


class LockError(NotConfiguredError):
    """A lock file does not read, or cannot be written."""


class TvmPairError(NotConfiguredError):
    """TVM and tvm-ffi, as they are installed, crash together."""


class ExportError(TilefarmError):
    """What was to be exported cannot be written."""


class ImportFilesError(TilefarmError):
    """What was to be imported is not there."""


class MissingExtraError(TilefarmError, ImportError):
    """A front end's framework is not installed."""

    def __init__(self, package: str) -> None:
        super().__init__(f"{package} is not installed: pip install 'tilefarm[{package}]'")
        self.package = package


class ServiceError(TilefarmError):
    """Something between us and an answer."""


class ConnectError(ServiceError):
    """The service cannot be reached."""


class DeadlineError(ServiceError, TimeoutError):
    """The time allowed ran out."""


class OfflineError(ServiceError):
    """The answer would take a request, and none may be made."""


class AuthError(ServiceError):
    """The token is missing, wrong, or lacks the scope."""


class ProblemError(ServiceError):
    """The service refused."""

    def __init__(
        self,
        *,
        code: str,
        status: int,
        detail: str,
        errors: Sequence[Mapping[str, Any]] = (),
    ) -> None:
        #: The last part of the problem's `type`, such as `unknown_target`.
        self.code = code
        #: The HTTP status.
        self.status = status
        self.detail = detail
        #: One {"code", "function", "detail"} per cause.
        self.errors = tuple(dict(error) for error in errors)
        super().__init__(self._text())

    @property
    def is_outage(self) -> bool:
        """The service failed; else it understood, and refused."""
        return self.status >= 500

    def _text(self) -> str:
        lines = [f"{self.detail or 'refused'} ({self.code}, HTTP {self.status})"]
        for error in self.errors:
            if not error.get("function") and error.get("detail") == self.detail:
                continue  # the one cause, said already
            where = f"{error['function']}: " if error.get("function") else ""
            lines.append(f"  {where}{error.get('detail') or ''} ({error.get('code')})")
        return "\n".join(lines)


class BadAnswerError(ServiceError):
    """What came back is not what this client understands."""


class ModuleError(TilefarmError):
    """The module cannot be tuned or looked up."""


class TargetError(TilefarmError, ValueError):
    """The target is refused, with a stable code."""

    def __init__(self, code: str, detail: str) -> None:
        super().__init__(detail)
        self.code = code
        self.detail = detail


class TraceError(TilefarmError, ValueError):
    """A trace is not one that a schedule may contain."""

    def __init__(self, detail: str, *, instruction: int | None = None) -> None:
        where = "" if instruction is None else f"instruction {instruction}: "
        super().__init__(where + detail)
        self.detail = where + detail
        #: Index of the instruction, where it is known.
        self.instruction = instruction


class SignatureError(TilefarmError, ValueError):
    """A record is not signed by a key that is trusted."""


class CannotTravelError(TilefarmError, TypeError):
    """An argument means something only in this process."""

    def __init__(self, argument: str, detail: str) -> None:
        super().__init__(f"{argument}: {detail}")
        self.argument = argument


class JobFailedError(TilefarmError):
    """The job ended without a result."""

    def __init__(self, job_id: str, state: str, detail: str | None) -> None:
        super().__init__(f"job {job_id} {state}" + (f": {detail}" if detail else ""))
        self.job_id = job_id
        self.state = state
