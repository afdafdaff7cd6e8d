"""`python -m bench ranking`: how well the cost model ranks programs of which it saw few.

Random programs of a workload's space are timed by the worker's own Measurer. Then models learn from some of
them, drawn at random, and rank the others. No search: what it does with a ranking is `bench ablation`'s.
"""

import argparse
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from bench import agreement, machine, report, suite
from bench.measuring import Measuring, measuring
from bench.search import result_of
from tuner.cost_model.for_target import cost_model, cpu_of
from tuner.cost_model.prior import Prior
from tuner.cost_model.protocol import CostModel, Sample
from tuner.cost_model.roofline import RooflineModel
from tuner.cost_model.xgb import XGBoostModel
from tuner.features import Rows, unpack
from tuner.search.known import Known
from tuner.search.options import SearchOptions
from tuner.search.random import RandomSearch
from tuner.search.setup import open_setup
from tuner.target import detect_local_target
from workers.messages import MeasurePolicy

#: Programs that a model sees before it ranks.
_LEARNT = (8, 16, 32, 56)
#: Of the others it names so many.
_NAMED = 6
_SPACES: Mapping[str, Any] = {"stock": None, "tilefarm": {"rules": "tilefarm"}}


@dataclass(frozen=True, slots=True, kw_only=True)
class Timed:
    """A program that ran, or was stopped at its bound."""

    rows: Rows
    secs: float
    censored: bool


class RooflineAlone:
    """A CostModel that learns nothing but the roofline's scale."""

    def __init__(self, target: Any) -> None:
        self._prior = Prior(RooflineModel(cpu_of(target)))

    def fit(self, samples: Sequence[Sample]) -> None:
        self._prior.fit([sample for sample in samples if len(sample.rows)])

    def predict(self, candidates: Sequence[Rows]) -> Any:
        return self._prior.scores(candidates) if candidates else np.zeros(0)


MODELS: Mapping[str, Callable[[Any], CostModel]] = {
    "the cost model": cost_model,
    "its roofline alone": RooflineAlone,
    "its trees alone": lambda _: XGBoostModel(),
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--workloads", default="GMM-512,DENSE,C1D,C2D-a,CBR,GRP")
    parser.add_argument("--space", choices=list(_SPACES), default="stock")
    parser.add_argument("--programs", type=int, default=96, help="of each workload; the default: 96")
    parser.add_argument("--draws", type=int, default=16, help="of what is learnt; the default: 16")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--docs", action="store_true", help="write the table into docs/benchmarks.md")


def main(arguments: argparse.Namespace) -> int:
    target = detect_local_target()
    rows: list[list[str]] = []
    with measuring(target) as device:
        for name in arguments.workloads.split(","):
            if name not in suite.names():
                raise SystemExit(f"no workload {name}; known are {', '.join(suite.names())}")
            programs, tvm_target = _timed(name, device, target, arguments)
            for words, make in MODELS.items():
                opened = partial(make, tvm_target)
                cells = [
                    _cell(programs, opened, learnt, draws=arguments.draws)
                    for learnt in _LEARNT
                    if learnt + 2 * _NAMED <= len(programs)
                ]
                rows.append([name, str(len(programs)), words, *cells])
                print(report.markdown_table(_head(), rows[-1:])[-1], flush=True)
    text = "\n".join([_words(arguments.space), "", *report.markdown_table(_head(), rows)])
    if arguments.docs:
        report.write_section("ranking", text)
    return 0


def _head() -> list[str]:
    return ["workload", "programs", "ranked by", *(f"learnt {learnt}" for learnt in _LEARNT)]


def _words(space: str) -> str:
    return (
        f"{machine.this_machine()}; {space}'s space. Spearman's correlation with the measured times of the "
        f"programs that were not learnt, and how near the best {_NAMED} that are named come to the best of "
        "them (1: it is among them); means over draws."
    )


def _timed(
    name: str, device: Measuring, target: Mapping[str, Any], arguments: argparse.Namespace
) -> tuple[list[Timed], Any]:
    """What ran of so many random programs; and the tvm.target.Target."""
    workload = suite.workload(name)
    space, seed = _SPACES[arguments.space], arguments.seed
    options = SearchOptions()
    setup = open_setup(module=workload.module, target=target, space=space, seed=seed, options=options)
    drawn = RandomSearch(setup, Known()).suggest(arguments.programs, round_=0).candidates
    outcomes = device.outcomes(workload.module, [each.trace for each in drawn], MeasurePolicy())
    results = [result_of(*pair, round_=0) for pair in zip(drawn, outcomes, strict=True)]
    return [
        Timed(rows=unpack(result.features), secs=result.latency_secs, censored=result.censored)
        for result in results
        if result.latency_secs is not None
    ], setup.target


def _cell(programs: Sequence[Timed], make: Callable[[], CostModel], learnt: int, *, draws: int) -> str:
    found = [ranked(programs, make(), learnt, draw) for draw in range(draws)]
    correlation, nearness = (statistics.mean(each) for each in zip(*found, strict=True))
    return f"{correlation:.2f}, {nearness:.2f}"


def ranked(programs: Sequence[Timed], model: CostModel, learnt: int, draw: int) -> tuple[float, float]:
    """The rank correlation, and the nearness of what the model names, for one draw of what it learns."""
    order = np.random.default_rng(draw).permutation(len(programs))
    seen, unseen = ([programs[place] for place in part] for part in (order[:learnt], order[learnt:]))
    best = min(program.secs for program in seen)
    model.fit([Sample(rows=each.rows, score=best / each.secs, censored=each.censored) for each in seen])
    scores = model.predict([program.rows for program in unseen])
    secs = [program.secs for program in unseen]
    if scores is None or not np.ptp(scores):
        return 0.0, statistics.mean(min(secs) / each for each in secs)
    expected = (-scores).tolist()
    return (
        agreement.spearman(expected, secs),
        1 / agreement.regret(expected, secs, confirmed=_NAMED),
    )
