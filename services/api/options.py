"""Options of a job: overrides of the measure policy and of the search's settings by name, and isolation_key.

An option counts towards what makes two tasks share one search, so an unknown one is refused, never ignored.
"""

import dataclasses
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from services.api.errors import ErrorEntry, InvalidError
from workers.messages import MeasurePolicy

#: Lowest and highest value of each policy field.
_POLICY_BOUNDS: dict[str, tuple[float, float]] = {
    "number": (1, 1000),
    "min_repeat": (1, 100),
    "max_repeat": (1, 1000),
    "min_repeat_ms": (0, 1000),
    "target_relative_error": (0.001, 1),
    "cut_off_ratio": (1, 1000),
    "build_timeout_secs": (0.5, 120),
    "run_timeout_secs": (0.5, 120),
    "memory_limit_bytes": (64 << 20, 64 << 30),
    "flush_cache": (0, 1),
    "input_seed": (0, 2**31 - 1),
    "integer_low": (-(2**31), 2**31 - 1),
    "integer_high": (-(2**31), 2**31 - 1),
    "confirm_processes": (1, 10),
}
#: Lowest and highest value of each search setting, and whether it is an integer (tuner/search/options.py).
_SEARCH_BOUNDS: dict[str, tuple[float, float, bool]] = {
    "batch_size": (1, 1024, True),
    "first_batch_size": (1, 1024, True),
    "population_size": (1, 4096, True),
    "genetic_num_iters": (0, 64, True),
    "genetic_mutate_prob": (0, 1, False),
    "init_measured_ratio": (0, 1, False),
    "eps_greedy": (0, 1, False),
    "num_threads": (1, 64, True),
    "result_lag": (1, 16, True),
}
_ISOLATION_KEY = re.compile(r"[A-Za-z0-9_.:-]{0,120}")


@dataclass(frozen=True, slots=True, kw_only=True)
class JobOptions:
    policy: MeasurePolicy
    #: Only what was given.
    search: dict[str, int | float]
    isolation_key: str


def read_options(options: Mapping[str, Any]) -> JobOptions:
    """Raises InvalidError that names every option at fault."""
    faults: list[ErrorEntry] = []
    policy: dict[str, Any] = {}
    search: dict[str, Any] = {}
    for name, value in options.items():
        if name in _POLICY_BOUNDS:
            policy[name] = _in_policy(name, value, faults)
        elif name in _SEARCH_BOUNDS:
            search[name] = _in_search(name, value, faults)
        elif name != "isolation_key":
            _fault(faults, f"there is no option {name[:80]!r}")
    isolation_key = options.get("isolation_key", "")
    if not isinstance(isolation_key, str) or _ISOLATION_KEY.fullmatch(isolation_key) is None:
        _fault(faults, "isolation_key is at most 120 letters, digits, and any of _.:-")
    if not faults:
        made = MeasurePolicy(**policy)
        _check_pairs(made, faults)
    if faults:
        raise InvalidError("bad_option", faults[0].detail, errors=faults)
    return JobOptions(policy=made, search=search, isolation_key=isolation_key)


def _check_pairs(policy: MeasurePolicy, faults: list[ErrorEntry]) -> None:
    if policy.min_repeat > policy.max_repeat:
        _fault(faults, "min_repeat is above max_repeat")
    if policy.integer_low >= policy.integer_high:
        _fault(faults, "integer_low is not below integer_high")


def _in_policy(name: str, value: Any, faults: list[ErrorEntry]) -> Any:
    default = _POLICY_DEFAULTS[name]
    low, high = _POLICY_BOUNDS[name]
    if isinstance(default, bool):
        if not isinstance(value, bool):
            _fault(faults, f"{name} is true or false")
        return value
    return _number(name, value, (low, high, isinstance(default, int)), faults)


def _in_search(name: str, value: Any, faults: list[ErrorEntry]) -> Any:
    return _number(name, value, _SEARCH_BOUNDS[name], faults)


def _number(name: str, value: Any, bounds: tuple[float, float, bool], faults: list[ErrorEntry]) -> Any:
    low, high, whole = bounds
    number = isinstance(value, int) or (isinstance(value, float) and not whole)
    if not number or isinstance(value, bool) or not low <= value <= high:
        kind = "an integer" if whole else "a number"
        _fault(faults, f"{name} is {kind} from {low:g} to {high:g}")
        return value
    return value if whole else float(value)


def _fault(faults: list[ErrorEntry], detail: str) -> None:
    faults.append(ErrorEntry(code="bad_option", detail=detail))


_POLICY_DEFAULTS = dataclasses.asdict(MeasurePolicy())
