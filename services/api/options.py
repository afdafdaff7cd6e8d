"""Options of a job by name: of its measure policy, of its searches, isolation_key, and when tasks stop early.

Most count towards what makes two tasks share one search, so an unknown one is refused, never ignored.
"""

import dataclasses
import re
from collections.abc import Mapping, Sequence
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
    "max_measure_ms": (1, 60_000),
    "clearly_slower_ratio": (1, 1000),
    "distance_error_share": (0, 10),
    "slow_build_ratio": (1, 1000),
    "slow_build_secs": (0.01, 600),
    "target_relative_error": (0.001, 1),
    "cut_off_ratio": (1, 1000),
    "least_cut_off_ms": (0, 60_000),
    "least_alarm_ms": (1, 60_000),
    "build_timeout_secs": (0.5, 120),
    "run_timeout_secs": (0.5, 120),
    "memory_limit_bytes": (64 << 20, 64 << 30),
    "flush_cache": (0, 1),
    "input_seed": (0, 2**31 - 1),
    "integer_low": (-(2**31), 2**31 - 1),
    "integer_high": (-(2**31), 2**31 - 1),
    "confirm_processes": (1, 10),
}
_MAX_RANGES = 200
#: Lowest and highest value of each search setting, and whether it is an integer (tuner/search/options.py).
_SEARCH_BOUNDS: dict[str, tuple[float, float, bool]] = {
    "batch_size": (1, 1024, True),
    "first_batch_size": (1, 1024, True),
    "population_size": (1, 4096, True),
    "genetic_num_iters": (0, 64, True),
    "genetic_mutate_prob": (0, 1, False),
    "random_ratio": (0, 16, False),
    "draft_ratio": (0, 64, False),
    "draft_passes": (1, 8, True),
    "eps_greedy": (0, 1, False),
    "descent_ratio": (0, 1, False),
    "num_threads": (1, 64, True),
    "result_lag": (1, 16, True),
}
#: The same of what ends a task before its budget is spent (services/tuning/stop_rule.py).
_STOP_BOUNDS: dict[str, tuple[float, float, bool]] = {
    "patience": (8, 1_000_000, True),
    "peak_share": (0.5, 1, False),
}
_ISOLATION_KEY = re.compile(r"[A-Za-z0-9_.:-]{0,120}")


@dataclass(frozen=True, slots=True, kw_only=True)
class JobOptions:
    policy: MeasurePolicy
    #: Only what was given.
    search: dict[str, int | float]
    isolation_key: str
    #: Lowest and highest + 1 of integer inputs, by parameter name.
    input_ranges: dict[str, tuple[int, int]]

    def policy_of(self, parameters: Sequence[str]) -> MeasurePolicy:
        """For a function with these parameters: by position, since names are not part of a workload."""
        ranges = [
            (position, *self.input_ranges[name])
            for position, name in enumerate(parameters)
            if name in self.input_ranges
        ]
        return dataclasses.replace(self.policy, input_ranges=tuple(ranges))


def read_options(options: Mapping[str, Any]) -> JobOptions:
    """Raises InvalidError that names every option at fault."""
    faults: list[ErrorEntry] = []
    policy: dict[str, Any] = {}
    search: dict[str, Any] = {}
    for name, value in options.items():
        if name in _POLICY_BOUNDS:
            policy[name] = _in_policy(name, value, faults)
        elif name in _SEARCH_BOUNDS:
            search[name] = _number(name, value, _SEARCH_BOUNDS[name], faults)
        elif name in _STOP_BOUNDS:
            # Of the job alone: jobs that differ in it share their searches.
            _number(name, value, _STOP_BOUNDS[name], faults)
        elif name not in ("isolation_key", "input_ranges"):
            _fault(faults, f"there is no option {name[:80]!r}")
    isolation_key = options.get("isolation_key", "")
    if not isinstance(isolation_key, str) or _ISOLATION_KEY.fullmatch(isolation_key) is None:
        _fault(faults, "isolation_key is at most 120 letters, digits, and any of _.:-")
    input_ranges = _read_ranges(options.get("input_ranges", {}), faults)
    if not faults:
        made = MeasurePolicy(**policy)
        _check_pairs(made, faults)
    if faults:
        raise InvalidError("bad_option", faults[0].detail, errors=faults)
    return JobOptions(policy=made, search=search, isolation_key=isolation_key, input_ranges=input_ranges)


def check_ranges(options: JobOptions, functions: Sequence[tuple[Sequence[str], Sequence[str]]]) -> None:
    """Each range names an integer parameter of some function, given as (names, dtypes); else InvalidError."""
    integers = {
        name
        for names, dtypes in functions
        for name, dtype in zip(names, dtypes, strict=True)
        if dtype.startswith(("int", "uint"))
    }
    faults: list[ErrorEntry] = []
    for name in options.input_ranges.keys() - integers:
        _fault(faults, f"input_ranges: no function has an integer parameter {name[:80]!r}")
    if faults:
        raise InvalidError("bad_option", faults[0].detail, errors=faults)


def _read_ranges(value: Any, faults: list[ErrorEntry]) -> dict[str, tuple[int, int]]:
    if not isinstance(value, dict) or len(value) > _MAX_RANGES:
        _fault(faults, f"input_ranges maps at most {_MAX_RANGES} parameters to [low, high]")
        return {}
    ranges: dict[str, tuple[int, int]] = {}
    for name, pair in value.items():
        whole = isinstance(pair, list) and len(pair) == 2 and all(type(end) is int for end in pair)
        if whole and -(2**63) <= pair[0] < pair[1] <= 2**63 - 1:
            ranges[name] = (pair[0], pair[1])
        else:
            _fault(faults, f"input_ranges[{name[:80]!r}] is [low, high], integers, low below high")
    return ranges


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
