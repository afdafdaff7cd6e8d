"""Pairs of `python -m bench stock` kept beside the tables, so that seeds run on different days add up."""

import json
from collections.abc import Sequence
from pathlib import Path

from bench.comparison import Comparison, Pair
from bench.report import PICTURES

DIRECTORY = PICTURES / "pairs"


def keep(pair: Pair, *, directory: Path = DIRECTORY) -> Path:
    """Replaces the pair of the same workload and seed; traces are left out."""
    directory.mkdir(parents=True, exist_ok=True)
    path = directory / f"{pair.workload}-{pair.seed}.json"
    path.write_text(json.dumps(pair.without_traces().as_json()) + "\n")
    return path


def comparisons(workloads: Sequence[str], *, directory: Path = DIRECTORY) -> list[Comparison]:
    """What is kept of each workload, in the order asked for; those without a pair are left out."""
    found = [_kept(name, directory) for name in workloads]
    return [Comparison(pairs=tuple(pairs)) for pairs in found if pairs]


def _kept(workload: str, directory: Path) -> list[Pair]:
    """By seed. Pairs of fewer trials than another of the workload are not mixed with it."""
    every = [Pair.from_json(json.loads(path.read_text())) for path in directory.glob(f"{workload}-*.json")]
    pairs = sorted((pair for pair in every if pair.workload == workload), key=lambda pair: pair.seed)
    most = max((pair.trials for pair in pairs), default=0)
    return [pair for pair in pairs if pair.trials == most]
