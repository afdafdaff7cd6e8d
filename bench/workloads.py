"""Every workload of the benchmarks by its name, and the lists by theirs."""

import argparse
from collections.abc import Mapping
from typing import Final

from bench import suite
from bench.drawn import DRAWN
from bench.fresh import FRESH
from bench.fused import FUSED
from bench.kinds import KINDS
from bench.layers import LAYERS
from bench.names import kind_and_sizes
from bench.parts import PARTS
from bench.sizes import SIZES
from bench.suite import DEVELOPMENT, EXTENSION, Workload
from bench.unseen import UNSEEN

LISTS: Final[Mapping[str, tuple[str, ...]]] = {
    "suite": tuple(DEVELOPMENT),
    "extension": tuple(EXTENSION),
    "unseen": tuple(UNSEEN),
    "fresh": tuple(FRESH),
    "layers": tuple(LAYERS),
    "sizes": tuple(SIZES),
    "fused": tuple(FUSED),
    "parts": tuple(PARTS),
    "drawn": tuple(DRAWN),
    "all": (*DEVELOPMENT, *EXTENSION, *UNSEEN, *FRESH, *LAYERS, *SIZES, *FUSED, *PARTS, *DRAWN),
}


def asked(text: str) -> tuple[str, ...]:
    """Names and lists with commas between them, each workload once. For argparse.

    Raises argparse.ArgumentTypeError for a name of no workload and of no list.
    """
    found: dict[str, None] = {}
    for name in text.split(","):
        if name not in LISTS and not _is_known(name):
            raise argparse.ArgumentTypeError(
                f"no workload and no list is called {name!r}; lists are {', '.join(LISTS)}"
            )
        found |= dict.fromkeys(LISTS.get(name, (name,)))
    return tuple(found)


def _is_known(name: str) -> bool:
    kind, sizes = kind_and_sizes(name)
    return kind in KINDS if sizes else name in LISTS["all"] or name in suite.SMALL


def workload(name: str) -> Workload:
    """Loads TVM. Raises KeyError for a name that is in no list, and that no kind has."""
    kind, sizes = kind_and_sizes(name)
    if sizes:
        return suite.built(name, KINDS[kind].build(*sizes))
    builds = UNSEEN | FRESH | LAYERS | SIZES | FUSED | PARTS | DRAWN
    return suite.built(name, builds[name]) if name in builds else suite.workload(name)
