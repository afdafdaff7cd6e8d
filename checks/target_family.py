"""When is one record near what was asked? By a rule that has a name, and that whoever asks has to name.

`num-cores`: equal but for the number of cores. `mcpu-family`: equal but for the CPU, both of one family here:
the same vector registers, so that tile sizes mean the same. `anchor-block`: exactly the target, but another
workload. A near record is never an exact one.
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import Any, Final


class NearRule(StrEnum):
    NUM_CORES = "num-cores"
    MCPU_FAMILY = "mcpu-family"
    #: The same target; another function around the same costliest block.
    ANCHOR_BLOCK = "anchor-block"


#: LLVM's names of CPUs whose vector units are alike; a CPU in none of them is near no other.
FAMILIES: Final[tuple[frozenset[str], ...]] = (
    # 512 bits: 32 zmm registers.
    frozenset(
        {
            *("x86-64-v4", "skylake-avx512", "cascadelake", "cooperlake", "cannonlake", "icelake-client"),
            *("icelake-server", "rocketlake", "tigerlake", "sapphirerapids", "emeraldrapids"),
            *("graniterapids", "graniterapids-d", "znver4", "znver5"),
        }
    ),
    # 256 bits: 16 ymm registers.
    frozenset(
        {
            *("x86-64-v3", "haswell", "broadwell", "skylake", "alderlake", "raptorlake", "meteorlake"),
            *("arrowlake", "lunarlake", "sierraforest", "znver1", "znver2", "znver3"),
        }
    ),
    # 128-bit NEON, with SVE of 128 bits.
    frozenset({"neoverse-n2", "neoverse-v2", "neoverse-n3", "neoverse-v3", "cortex-a710", "cortex-x2"}),
    # 128-bit NEON.
    frozenset({"neoverse-n1", "cortex-a72", "cortex-a76", "cortex-a77", "cortex-a78", "cortex-x1"}),
)
_FIELDS: Final = {NearRule.NUM_CORES: "num-cores", NearRule.MCPU_FAMILY: "mcpu"}


def near_by(asked: Mapping[str, Any], other: Mapping[str, Any]) -> NearRule | None:
    """The one rule by which two canonical targets are near; None where they are equal or not near."""
    for rule, field in _FIELDS.items():
        differs = asked.get(field) != other.get(field)
        rest = {name: value for name, value in asked.items() if name != field}
        if differs and rest == {name: value for name, value in other.items() if name != field}:
            mcpus = {asked.get("mcpu"), other.get("mcpu")}
            if rule is NearRule.NUM_CORES or any(mcpus <= family for family in FAMILIES):
                return rule
    return None


def distance(asked: Mapping[str, Any], other: Mapping[str, Any]) -> tuple[int, int]:
    """Sorts near targets, nearest first: other numbers of cores by their difference, then other CPUs."""
    rule = near_by(asked, other)
    cores = abs(int(asked.get("num-cores") or 0) - int(other.get("num-cores") or 0))
    return (0 if rule is NearRule.NUM_CORES else 1, cores)
