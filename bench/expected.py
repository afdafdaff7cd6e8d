"""`python -m bench expected --database URL`: what `tilefarm coverage` expects of tuning, and what it brought.

Each workload of the database that was tuned is left out in turn and estimated from the others, as the service
estimates one that nobody has tuned. A database with a few tuned models is enough; nothing is tuned here.
"""

import argparse
import math
import statistics
from collections.abc import Sequence
from dataclasses import asdict, dataclass

from sqlalchemy import select

from bench.machine import this_machine
from bench.report import markdown_table, write_json, write_section
from db.session import connect, reading
from db.tables import RecordRow, TargetRow
from db.tuned import Tuned, tuned_workloads
from services.api.expectation import Work, argument_bytes, expect, known

_MOST = 2_000
_WITHIN = (1.5, 2.0, 4.0)
#: Below this an estimate says that tuning brings nothing, as `tilefarm coverage` does.
_WORTH_TELLING = 1.1


@dataclass(frozen=True, slots=True, kw_only=True)
class Left:
    """One workload that was left out: what was expected of it, and what came."""

    similar: int
    expected_speedup: float
    speedup: float
    expected_gain_secs: float
    gain_secs: float
    expected_tuned_secs: float
    tuned_secs: float
    expected_untuned_secs: float
    untuned_secs: float
    #: Whether its speed-up lies between the least and the most of those that it was estimated from.
    is_between: bool


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--database", required=True, metavar="URL", help="of a service that has tuned")
    parser.add_argument("--dry", action="store_true", help="leave docs/ as it is")


def main(arguments: argparse.Namespace) -> int:
    found: list[Left] = []
    unknown = 0
    for tuned in _by_target(arguments.database):
        left = [_left_out(tuned, index) for index in range(len(tuned))]
        found.extend(each for each in left if each is not None)
        unknown += left.count(None)
    if not found:
        raise SystemExit("no two similar workloads were tuned in this database")
    text = _table(found, unknown)
    write_json("expected.json", {"machine": asdict(this_machine()), "left_out": [asdict(e) for e in found]})
    if not arguments.dry:
        write_section("expected", text)
    print(text)
    return 0


def _by_target(database_url: str) -> list[list[Tuned]]:
    engine = connect(database_url)
    with reading(engine) as session:
        pairs = session.execute(
            select(TargetRow.key, RecordRow.tvm_version)
            .join(RecordRow, RecordRow.target_id == TargetRow.id)
            .distinct()
        ).all()
        found = [
            tuned_workloads(session, target_key=key, tvm_version=version, limit=_MOST)
            for key, version in pairs
        ]
    engine.dispose()
    return found


def _left_out(tuned: Sequence[Tuned], index: int) -> Left | None:
    """None where nothing similar is among the others."""
    one = tuned[index]
    others = [each for at, each in enumerate(tuned) if at != index]
    found = expect(Work(flops=one.flops, size_bytes=argument_bytes(one.args)), known(others))
    if found is None:
        return None
    speedup = one.untuned_secs / one.tuned_secs
    return Left(
        similar=found.similar,
        expected_speedup=found.untuned_secs / found.tuned_secs,
        speedup=speedup,
        expected_gain_secs=found.untuned_secs - found.tuned_secs,
        gain_secs=one.untuned_secs - one.tuned_secs,
        expected_tuned_secs=found.tuned_secs,
        tuned_secs=one.tuned_secs,
        expected_untuned_secs=found.untuned_secs,
        untuned_secs=one.untuned_secs,
        is_between=found.least_speedup <= speedup <= found.most_speedup,
    )


def _off(expected: float, came: float) -> float:
    """By which factor, either way."""
    return math.exp(abs(math.log(expected / came)))


def _table(found: list[Left], unknown: int) -> str:
    kinds = {
        "seconds untuned": [_off(e.expected_untuned_secs, e.untuned_secs) for e in found],
        "seconds tuned": [_off(e.expected_tuned_secs, e.tuned_secs) for e in found],
        "times as fast": [_off(e.expected_speedup, e.speedup) for e in found],
    }
    head = ["estimate of", "off by, median", *(f"within {most:g}×" for most in _WITHIN), "worst"]
    rows = [
        [
            name,
            f"{statistics.median(offs):.2f}×",
            *(f"{100 * sum(off <= most for off in offs) / len(offs):.0f} %" for most in _WITHIN),
            f"{max(offs):.1f}×",
        ]
        for name, offs in kinds.items()
    ]
    worth = sum((e.expected_speedup >= _WORTH_TELLING) == (e.speedup >= _WORTH_TELLING) for e in found) / len(
        found
    )
    told = (
        f"{this_machine()}. {len(found)} tuned workloads, each left out in turn"
        + (f"; {unknown} more have nothing similar and get no estimate" if unknown else "")
        + f". Whether tuning is worth it ({_WORTH_TELLING:g}× or more) is said rightly of {worth:.0%}; of "
        f"{sum(e.is_between for e in found)} the speed-up lies between the least and the most of the similar "
        f"ones. Expected to be saved by tuning all: {1e3 * sum(e.expected_gain_secs for e in found):.1f} ms; "
        f"it was {1e3 * sum(e.gain_secs for e in found):.1f} ms. Rank correlation of gains, expected and "
        f"true: {_rank_agreement(found):.2f}."
    )
    return "\n".join([told, "", *markdown_table(head, rows)])


def _rank_agreement(found: Sequence[Left]) -> float:
    """Spearman's, of expected and true gains: whether the task that matters most is named first."""
    from scipy.stats import spearmanr

    return float(spearmanr([e.expected_gain_secs for e in found], [e.gain_secs for e in found]).statistic)
