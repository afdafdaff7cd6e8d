"""The wall of files: a process behind it writes in one directory alone, and connects to no TCP port.

Landlock, a module of Linux since 5.13 that needs no privilege; root is held by it too. What is refused fails
with EACCES. Files that are open already stay so, reading is left as it is, and it cannot be taken down again.
"""

import ctypes
import os
import struct
from collections.abc import Sequence

#: Of x86-64, arm64 and all later machines alike.
_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446
_ASK_VERSION = 1
_RULE_PATH_BENEATH = 1

_WRITE_FILE, _TRUNCATE, _REFER = 1 << 1, 1 << 14, 1 << 13
#: Remove directories and files; make devices, directories, files, sockets, pipes and links.
_CHANGE_DIRECTORY = sum(1 << bit for bit in range(4, 13))
_WRITE = _WRITE_FILE | _CHANGE_DIRECTORY
_BIND_TCP, _CONNECT_TCP = 1, 2
_SCOPE_ABSTRACT_SOCKET, _SCOPE_SIGNAL = 1, 2

_libc = ctypes.CDLL(None, use_errno=True)


def version() -> int:
    """Of the kernel's Landlock ABI; 0 where there is none, or a container's filter hides it."""
    found = _libc.syscall(_CREATE_RULESET, None, ctypes.c_size_t(0), _ASK_VERSION)
    return max(0, int(found))


def write_only_beneath(directory: str, *, files: Sequence[str] = ()) -> bool:
    """From now on this thread, and what it starts, changes files in `directory`, `files`, /dev/null alone.

    False, and nothing is changed, where the kernel has no Landlock. no_new_privs must have been set.
    """
    abi = version()
    if not abi:
        return False
    writes = _WRITE | (_REFER if abi >= 2 else 0) | (_TRUNCATE if abi >= 3 else 0)
    ruleset = _ruleset(abi, writes)
    try:
        _allow(ruleset, directory, writes)
        for file in (os.devnull, *files):
            _allow(ruleset, file, writes & (_WRITE_FILE | _TRUNCATE))
        _call(_RESTRICT_SELF, ruleset, 0)
    finally:
        os.close(ruleset)
    return True


def _ruleset(abi: int, writes: int) -> int:
    """A descriptor; fields that an older kernel does not know are not sent."""
    net = _BIND_TCP | _CONNECT_TCP
    scoped = _SCOPE_ABSTRACT_SOCKET | _SCOPE_SIGNAL
    fields = [writes, *([net] if abi >= 4 else []), *([scoped] if abi >= 6 else [])]
    attributes = struct.pack(f"={len(fields)}Q", *fields)
    return _call(_CREATE_RULESET, attributes, ctypes.c_size_t(len(attributes)), 0)


def _allow(ruleset: int, path: str, access: int) -> None:
    place = os.open(path, os.O_PATH | os.O_CLOEXEC)
    try:
        rule = struct.pack("=Qi", access, place)
        _call(_ADD_RULE, ruleset, _RULE_PATH_BENEATH, rule, 0)
    finally:
        os.close(place)


def _call(number: int, *arguments: object) -> int:
    result = int(_libc.syscall(number, *arguments))
    if result < 0:
        error = ctypes.get_errno()
        raise OSError(error, f"landlock: {os.strerror(error)}")
    return result
