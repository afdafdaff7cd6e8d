"""What a compile pays when the farm knows nothing of its model: seconds in tilefarm, of those of the compile.

A model of 25 layers, all of another size, is compiled by stock compile_relax: once with an empty database of
this process, once with a service that has no record, in turns.
"""

import statistics
import tempfile
import time
from typing import Any

from bench.lookup_api import running_api
from bench.lookup_content import TARGET
from bench.machine import this_machine
from bench.report import markdown_table
from db.migrate import upgrade
from db.session import connect, transaction
from db.tokens import create_token

_LAYERS = 25
_REPEATS = 3


def measure() -> tuple[str, dict[str, Any]]:
    """A Markdown table, and what it was made of."""
    import tvm

    target = tvm.target.Target(TARGET)
    found: dict[str, list[dict[str, float]]] = {"empty": [], "warn": [], "silent": []}
    with tempfile.TemporaryDirectory(prefix="tilefarm-bench-") as home:
        url = f"sqlite:///{home}/tilefarm.db"
        upgrade(url)
        engine = connect(url)
        with transaction(engine) as session:
            token = create_token(session, "bench", scopes=["records:read"])
        engine.dispose()
        with running_api(url) as api:
            _compile(None, target)
            for repeat in range(_REPEATS):
                for who, each in found.items():
                    cache = f"{home}/{who}-{repeat}"
                    each.append(_compile(_database(who, api, token, cache), target))
    return _table(found), found


def _database(who: str, url: str, token: str, cache: str) -> Any:
    import tilefarm

    if who == "empty":
        return None
    return tilefarm.connect(url, token, cache_dir=cache, on_miss="warn" if who == "warn" else "silent")


def _compile(database: Any, target: Any) -> dict[str, float]:
    from tvm.s_tir.meta_schedule.database import MemoryDatabase
    from tvm.s_tir.meta_schedule.relax_integration import compile_relax

    mod = _model()
    began = time.perf_counter()
    compile_relax(MemoryDatabase() if database is None else database, mod, target, params=None)
    wall = time.perf_counter() - began
    stats = None if database is None else database.stats()
    began = time.perf_counter()
    if database is not None:
        database.close()
    return {
        "wall_secs": wall,
        "tilefarm_secs": 0.0 if stats is None else stats.total_secs,
        "close_secs": time.perf_counter() - began,
        "misses": 0 if stats is None else stats.misses,
    }


def _model() -> Any:
    from tvm import relax

    builder = relax.BlockBuilder()
    widths = [64 + 8 * layer for layer in range(_LAYERS + 1)]
    x = relax.Var("x", relax.TensorType((16, widths[0]), "float32"))
    weights = [
        relax.Var(f"w{i}", relax.TensorType((widths[i], widths[i + 1]), "float32")) for i in range(_LAYERS)
    ]
    with builder.function("main", [x, *weights]):
        with builder.dataflow():
            hidden = x
            for weight in weights:
                hidden = builder.emit(relax.op.nn.relu(relax.op.matmul(hidden, weight)))
            out = builder.emit_output(hidden)
        builder.emit_func_output(out)
    return builder.get()


def _table(found: dict[str, list[dict[str, float]]]) -> str:
    rows = []
    for who, words in (
        ("empty", "stock MemoryDatabase, empty"),
        ("warn", 'tilefarm, `on_miss="warn"`'),
        ("silent", 'tilefarm, `on_miss="silent"`'),
    ):
        wall = statistics.median(one["wall_secs"] for one in found[who])
        spent = statistics.median(one["tilefarm_secs"] for one in found[who])
        part = statistics.median(one["tilefarm_secs"] / one["wall_secs"] for one in found[who])
        rows.append(
            [
                words,
                f"{found[who][0]['misses']:.0f}",
                f"{wall:.2f}",
                f"{1e3 * spent:.0f}",
                f"{100 * part:.2f} %",
                f"{1e3 * statistics.median(one['close_secs'] for one in found[who]):.0f}",
            ]
        )
    head = ["database", "misses", "compile, s", "of it in tilefarm, ms", "part", "closing, ms"]
    told = (
        f"{this_machine()}. A model of {_LAYERS} fused layers, medians of {_REPEATS}, in turns, cold cache."
    )
    return "\n".join([told, "", *markdown_table(head, rows)])
