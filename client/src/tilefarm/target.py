"""The canonical form of a target: the client's own copy of what the service does.

Which record a compile gets depends on it, so both sides obey the same golden vectors
(tests/data/target_vectors.json). Whether a CPU or architecture name exists is for TVM and the service.
"""

import hashlib
import json
import re
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

from tilefarm.errors import TargetError

#: The triple that TVM's x86-64 wheels compile for by themselves; naming it changes nothing.
DEFAULT_MTRIPLES = frozenset(
    {"x86_64-unknown-linux-gnu", "x86_64-pc-linux-gnu", "x86_64-linux-gnu", "x86_64-unknown-linux"}
)
MAX_NUM_CORES = 1024
_MAX_MATTRS = 64
_NAME = re.compile(r"[a-z0-9][a-z0-9_.+-]{0,63}")
_MATTR = re.compile(r"[+-][a-z0-9][a-z0-9_.-]{0,63}")
_MTRIPLE = re.compile(r"[a-z0-9_]{1,32}(-[a-z0-9_.]{1,32}){1,3}")
_CUDA_ARCH = re.compile(r"sm_[1-9][0-9]{1,2}[af]?")
_DROPPED = frozenset({"kind", "tag", "keys", "host"})
_CUDA_LIMITS = {
    "max_num_threads": 4096,
    "max_threads_per_block": 4096,
    "max_shared_memory_per_block": 1 << 20,
    "registers_per_block": 1 << 20,
    "thread_warp_size": 64,
    "l2_cache_size_bytes": 1 << 30,
}
_CUDA_DEFAULTS = {"max_num_threads": 1024, "thread_warp_size": 32}


def canonical(target: Mapping[str, Any]) -> dict[str, Any]:
    """The canonical form of an exported or hand-written target.

    Raises TargetError: bad_target, unknown_target (its kind), missing_target_option, bad_target_option.
    """
    if not isinstance(target, Mapping):
        raise TargetError("bad_target", "a target is a JSON object")
    kind = target.get("kind")
    if not isinstance(kind, str) or kind not in _KINDS:
        raise TargetError("unknown_target", f"target kind {_show(kind)} is not one of llvm, cuda")
    return _KINDS[kind](target)


class _Keyed(dict[str, Any]):
    """A canonical target that is asked for again and again; nobody changes it."""

    __slots__ = ("key",)

    def __init__(self, target: Mapping[str, Any]) -> None:
        super().__init__(target)
        self.key = key(target)


def key(canonical_target: Mapping[str, Any]) -> str:
    """SHA-256 (hex) of the canonical form as compact JSON with sorted keys."""
    if isinstance(canonical_target, _Keyed):
        return canonical_target.key
    text = json.dumps(canonical_target, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return hashlib.sha256(text.encode()).hexdigest()


def _canonical_llvm(target: Mapping[str, Any]) -> dict[str, Any]:
    _refuse_unknown(target, {"mcpu", "mattr", "mtriple", "num-cores"})
    result: dict[str, Any] = {
        "kind": "llvm",
        "mcpu": _matching(target, "mcpu", _NAME),
        "num-cores": _bounded(target, "num-cores", MAX_NUM_CORES),
    }
    if result["mcpu"] in ("native", "generic"):
        raise TargetError(
            "bad_target_option", f"mcpu {result['mcpu']!r} names no CPU: LLVM would emit generic code"
        )
    mattr = _mattr(target.get("mattr"))
    if mattr:
        result["mattr"] = mattr
    if target.get("mtriple") not in (None, ""):
        mtriple = _matching(target, "mtriple", _MTRIPLE)
        if mtriple not in DEFAULT_MTRIPLES:
            result["mtriple"] = mtriple
    return result


def _canonical_cuda(target: Mapping[str, Any]) -> dict[str, Any]:
    _refuse_unknown(target, {"arch", *_CUDA_LIMITS})
    result: dict[str, Any] = {"kind": "cuda", "arch": _matching(target, "arch", _CUDA_ARCH)}
    for name, limit in _CUDA_LIMITS.items():
        if target.get(name) is not None:
            result[name] = _bounded(target, name, limit)
        elif name in _CUDA_DEFAULTS:
            result[name] = _CUDA_DEFAULTS[name]
    return result


_KINDS: dict[str, Callable[[Mapping[str, Any]], dict[str, Any]]] = {
    "llvm": _canonical_llvm,
    "cuda": _canonical_cuda,
}


def _refuse_unknown(target: Mapping[str, Any], known: set[str]) -> None:
    for name in target:
        if name not in known and name not in _DROPPED:
            raise TargetError("bad_target_option", f"target option {_show(name)} is not allowed")


def _matching(target: Mapping[str, Any], name: str, pattern: re.Pattern[str]) -> str:
    value = target.get(name)
    if value is None or value == "":
        raise TargetError("missing_target_option", f"a target of this kind must name {name!r}")
    if not isinstance(value, str) or pattern.fullmatch(value) is None:
        raise TargetError("bad_target_option", f"{name} {_show(value)} is not a name that is allowed")
    return value


def _bounded(target: Mapping[str, Any], name: str, limit: int) -> int:
    value = target.get(name)
    if value is None:
        raise TargetError("missing_target_option", f"a target of this kind must name {name!r}")
    if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= limit:
        raise TargetError("bad_target_option", f"{name} {_show(value)} is not an integer from 1 to {limit}")
    return value


def _mattr(value: Any) -> list[str]:
    if value is None:
        return []
    if not isinstance(value, (list, tuple)) or len(value) > _MAX_MATTRS:
        raise TargetError("bad_target_option", f"mattr is a list of at most {_MAX_MATTRS} features")
    for feature in value:
        if not isinstance(feature, str) or _MATTR.fullmatch(feature) is None:
            raise TargetError("bad_target_option", f"mattr {_show(feature)} is not like '+avx2' or '-sse4a'")
    return sorted(set(value))


def _show(value: Any) -> str:
    """A value for a message, bounded: the sender chose it."""
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."


def of_tvm(target: Any) -> dict[str, Any]:
    """The canonical form of a `tvm.target.Target`, for reading."""
    return _of_handle(target)


@lru_cache(maxsize=64)
def _of_handle(target: Any) -> _Keyed:
    """A compile asks with one target for all of its functions. TVM's objects are equal where they are one."""
    return _Keyed(canonical(plain(target.export())))


def plain(value: Any) -> Any:
    """TVM's containers and boxed numbers as plain Python."""
    if value is None or isinstance(value, bool | int | float):
        return value
    if isinstance(value, str):
        return str(value)
    if hasattr(value, "items"):
        return {str(name): plain(item) for name, item in value.items()}
    if hasattr(value, "value"):
        return plain(value.value)
    return [plain(item) for item in value]
