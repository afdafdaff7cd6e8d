"""One message for many: what differs from trial to trial (addresses, numbers, paths, names) becomes a sign.

Pure. It changes nothing that is stored.
"""

import re

_MAX_CHARS = 300
#: In this order: a path may hold numbers, an address is one.
_SIGNS = (
    (re.compile(r"\x1b\[[0-9;]*m"), ""),
    (re.compile(r"(?:/[\w.+-]+){2,}(?::\d+)?"), "⟨path⟩"),
    (re.compile(r"\b0x[0-9a-fA-F]+\b"), "⟨address⟩"),
    (re.compile(r"\b[0-9a-f]{12,64}\b"), "⟨hash⟩"),
    (re.compile(r"(?<![\w.])-?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?"), "⟨n⟩"),
    (re.compile(r"(?<=[A-Za-z_])\d+\b"), "⟨n⟩"),
    (re.compile(r"\s+"), " "),
)


def normalised(error: str) -> str:
    """The message's last line that says something: of a Python traceback that is the error itself."""
    lines = [line.strip() for line in error.splitlines() if line.strip()]
    if not lines:
        return "(no message)"
    text = lines[-1] if lines[0].startswith("Traceback") else lines[0]
    for pattern, sign in _SIGNS:
        text = pattern.sub(sign, text)
    return text.strip()[:_MAX_CHARS]
