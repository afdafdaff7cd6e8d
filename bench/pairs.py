"""Pairs of `python -m bench stock` kept beside the tables, so that seeds run on different days add up."""

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from bench.comparison import Comparison, Pair
from bench.report import PICTURES, cpu_name, target_text

DIRECTORY = PICTURES / "pairs"


def keep(pair: Pair, *, directory: Path = DIRECTORY) -> Path:
    """Replaces the pair of the same workload, target and seed; traces are left out."""
    directory.mkdir(parents=True, exist_ok=True)
    path = directory / f"{pair.workload}-{_short(pair.target)}-{pair.seed}.json"
    path.write_text(json.dumps(pair.without_traces().as_json()) + "\n")
    return path


def comparisons(workloads: Sequence[str], *, directory: Path = DIRECTORY) -> dict[str, list[Comparison]]:
    """By target, the one of most pairs first: what is kept of each workload, in the order asked for."""
    every = [Pair.from_json(json.loads(path.read_text())) for path in directory.glob("*.json")]
    targets = Counter(sorted(target_text(pair.target) for pair in every))
    return {
        target: [Comparison(pairs=tuple(pairs)) for name in workloads if (pairs := _of(every, target, name))]
        for target, _ in targets.most_common()
    }


def _of(every: Sequence[Pair], target: str, workload: str) -> list[Pair]:
    """By seed. Pairs of fewer trials than another of the workload are not mixed with it."""
    pairs = [pair for pair in every if (target_text(pair.target), pair.workload) == (target, workload)]
    most = max((pair.trials for pair in pairs), default=0)
    return sorted((pair for pair in pairs if pair.trials == most), key=lambda pair: pair.seed)


def _short(target: Mapping[str, Any]) -> str:
    return f"{cpu_name(target)}-{target['num-cores']}c"
