"""`python -m bench ablation`: what each part of the search is worth, played against recorded programs.

No device: what a program takes comes from bench/recorded_programs, with the noise of a shared machine. All
variants see the same programs and the same noise, so that only the search differs.
"""

import argparse
import dataclasses
import re
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from bench import report, suite
from bench.measuring import measuring
from bench.ranking import RooflineAlone
from bench.recorded_programs import Recorded, record
from tuner.cost_model.for_target import cost_model
from tuner.cost_model.protocol import CostModel, Sample
from tuner.cost_model.xgb import XGBoostModel
from tuner.features import N_STOCK, N_WITH_FOOTPRINTS, Rows
from tuner.search.drawing import spaces_of
from tuner.search.evolutionary import EvolutionarySearch
from tuner.search.known import Known
from tuner.search.options import SearchOptions
from tuner.search.random import RandomSearch
from tuner.search.setup import SearchSetup, open_setup
from tuner.search.strategy import Result, SearchStrategy
from tuner.space.marks import STRUCTURE
from tuner.target import detect_local_target
from tuner.trace import canonical_text

_SPACE = {"rules": "tilefarm"}
_MARKS = 4
#: A timing's relative error, how often one falls into a slow moment, and how slow that is.
_ERROR, _SLOW_SHARE, _SLOW = 0.04, 0.06, 1.3
#: Where a candidate is cut off, as a multiple of the best so far.
_CUT_OFF = 6.0
#: A block's read that is reindexed; of what it writes the last attribute is one.
_COPY_OF_OPERAND = r'"ReIndex",\["b\d+"\],\[\d+,0\]'


class _Blinkered:
    """A cost model that sees the first columns of rows alone."""

    def __init__(self, model: CostModel, n_columns: int) -> None:
        self._model, self._n_columns = model, n_columns

    def fit(self, samples: Sequence[Sample]) -> None:
        self._model.fit(
            [dataclasses.replace(sample, rows=sample.rows[:, : self._n_columns]) for sample in samples]
        )

    def predict(self, candidates: Sequence[Rows]) -> Any:
        return self._model.predict([rows[:, : self._n_columns] for rows in candidates])


@dataclass(frozen=True, slots=True, kw_only=True)
class Variant:
    """One part less."""

    options: Mapping[str, float] = field(default_factory=dict)
    model: Callable[[Any], CostModel] = cost_model
    strategy: str = "evolutionary"
    #: Design spaces whose traces match this expression are left out.
    without: str | None = None


VARIANTS: Mapping[str, Variant] = {
    "all of it": Variant(),
    "random programs in place of drafts": Variant(options={"draft_ratio": 0.0, "random_ratio": 3.0}),
    "no random programs": Variant(options={"random_ratio": 0.0, "eps_greedy": 0.0}),
    "no roofline to start from": Variant(model=lambda _: XGBoostModel()),
    "neither footprints nor roofline": Variant(model=lambda _: _Blinkered(XGBoostModel(), N_STOCK)),
    "no crowded sets": Variant(model=lambda target: _Blinkered(cost_model(target), N_WITH_FOOTPRINTS)),
    "the roofline alone, no trees": Variant(model=RooflineAlone),
    "random search": Variant(strategy="random"),
    "no padded plans": Variant(without="PadEinsum"),
    "no packed plans": Variant(without=_COPY_OF_OPERAND),
    "stock's design spaces alone": Variant(without=STRUCTURE),
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--workloads", default="CBR,GMM-1024", help="names of recorded ones")
    parser.add_argument("--variants", help="names, all by default")
    parser.add_argument("--trials", type=int, default=64)
    parser.add_argument("--seeds", type=int, default=4)
    parser.add_argument("--record", type=int, metavar="N", help="time N programs of each space anew, and end")
    parser.add_argument("--docs", action="store_true", help="write the table into docs/benchmarks.md")


def main(arguments: argparse.Namespace) -> int:
    names = arguments.workloads.split(",")
    if arguments.record:
        for name in names:
            _record(name, arguments.record)
        return 0
    wanted = arguments.variants.split(",") if arguments.variants else list(VARIANTS)
    rows = []
    for variant in wanted:
        cells = [_cells(name, VARIANTS[variant], arguments) for name in names]
        rows.append([variant, *(cell for found in cells for cell in found)])
        print(report.markdown_table(_head(names, arguments.trials), rows[-1:])[-1], flush=True)
    table = "\n".join(report.markdown_table(_head(names, arguments.trials), rows))
    print(table)
    if arguments.docs:
        report.write_section("ablation", table)
    return 0


def _record(name: str, draws: int) -> None:
    workload, target = suite.workload(name), detect_local_target()
    setup = setup_of(name, seed=0, options=SearchOptions())
    with measuring(target) as device:
        record(name, workload, setup, spaces_of(setup.design_spaces), device, draws)


def setup_of(name: str, *, seed: int, options: SearchOptions) -> SearchSetup:
    return open_setup(
        module=suite.workload(name).module,
        target=detect_local_target(),
        space=_SPACE,
        seed=seed,
        options=options,
    )


def _head(names: Sequence[str], trials: int) -> list[str]:
    marks = [f"{mark}" for mark in _marks(trials)]
    of_each = (cell for name in names for cell in (f"{name}: after {marks[0]}", *marks[1:], "CPU s"))
    return ["variant", *of_each]


def _marks(trials: int) -> list[int]:
    return [trials * part // _MARKS for part in range(1, _MARKS + 1)]


def _cells(name: str, variant: Variant, arguments: argparse.Namespace) -> list[str]:
    """How much slower than the best of all recorded, in the geometric mean; and seconds of a search."""
    curves, secs = [], []
    for seed in range(arguments.seeds):
        curve, cpu_secs = _played(name, variant, seed=seed, trials=arguments.trials)
        curves.append(curve)
        secs.append(cpu_secs)
    reached = [
        statistics.geometric_mean(curve[min(mark, len(curve)) - 1] for curve in curves)
        for mark in _marks(arguments.trials)
    ]
    return [*(f"{each:.3f}" for each in reached), f"{statistics.median(secs):.1f}"]


def _played(name: str, variant: Variant, *, seed: int, trials: int) -> tuple[list[float], float]:
    """After each trial the true time of the best so far over the best recorded; CPU seconds of the search."""
    options = SearchOptions(**variant.options)  # type: ignore[arg-type]  # batch_size is none of them
    setup = setup_of(name, seed=seed, options=options)
    recorded = Recorded.read(name, spaces_of(setup.design_spaces))
    if variant.without is not None:
        left = (s for s in setup.design_spaces if not re.search(variant.without, canonical_text(s.trace)))
        setup = dataclasses.replace(setup, design_spaces=tuple(left))
    search = _search(variant, setup)
    noise = np.random.default_rng(seed)
    curve: list[float] = []
    best, cpu_secs, round_ = float("inf"), 0.0, 0
    while len(curve) < trials:
        began = time.process_time()
        batch = search.suggest(min(options.batch_size, trials - len(curve)), round_=round_).candidates
        cpu_secs += time.process_time() - began
        results = []
        for candidate in batch:
            true = recorded.secs(candidate.trace)
            seen = true * float(np.exp(noise.normal(0, _ERROR)))
            seen *= _SLOW if noise.random() < _SLOW_SHARE else 1
            is_cut_off = seen > _CUT_OFF * best
            results.append(
                Result(
                    trace_hash=candidate.trace_hash,
                    program_hash=candidate.program_hash,
                    features=candidate.features,
                    round=round_,
                    latency_secs=_CUT_OFF * best if is_cut_off else seen,
                    censored=is_cut_off,
                    trace=None if is_cut_off else candidate.trace,
                )
            )
            best = min(best, seen)
            curve.append(min(true / recorded.best_secs, curve[-1] if curve else float("inf")))
        search.update(results)
        round_ += 1
        if not batch:
            break
    return curve, cpu_secs


def _search(variant: Variant, setup: SearchSetup) -> SearchStrategy:
    if variant.strategy == "random":
        return RandomSearch(setup, Known())
    return EvolutionarySearch(setup, Known(), variant.model(setup.target))
