"""What a compile pays when the farm knows nothing of its model: seconds in tilefarm, of those of the compile.

Stock compile_relax in fresh processes, in turns: with an empty database of the process, and with a service
that has no record. In each, TVM has compiled something before. What loading costs a process is told apart:
tilefarm, and httpx, which the first request needs.
"""

import json
import os
import statistics
import tempfile
import time
from typing import Any

from bench.lookup_content import TARGET
from bench.machine import this_machine
from bench.processes import ask, order_and_answer
from bench.report import markdown_table

_LAYERS = 25
_REPEATS = 5
_MODELS = ("layers", "resnet")
_WHO = {
    "empty": "stock MemoryDatabase, empty",
    "warn": 'tilefarm, `on_miss="warn"`',
    "silent": 'tilefarm, `on_miss="silent"`',
}


def measure() -> tuple[str, dict[str, Any]]:
    """A Markdown table, and what it was made of."""
    from bench.lookup_api import running_api
    from db.migrate import upgrade
    from db.session import connect, transaction
    from db.tokens import create_token

    found: dict[str, dict[str, list[dict[str, Any]]]] = {
        model: {who: [] for who in _WHO} for model in _MODELS
    }
    with tempfile.TemporaryDirectory(prefix="tilefarm-bench-") as home:
        url = f"sqlite:///{home}/tilefarm.db"
        upgrade(url)
        engine = connect(url)
        with transaction(engine) as session:
            token = create_token(session, "bench", scopes=["records:read"])
        engine.dispose()
        # A source tree that nobody may write bytecode into would be compiled by each process.
        env = {"PYTHONDONTWRITEBYTECODE": "", "PYTHONPYCACHEPREFIX": f"{home}/bytecode"}
        with running_api(url) as api:
            order = {"url": api, "token": token}
            ask(
                "bench.lookup_compile",
                {**order, "model": "tiny", "who": "warn", "cache": f"{home}/0"},
                env=env,
            )
            for repeat in range(_REPEATS):
                for model, by_who in found.items():
                    for who, each in by_who.items():
                        asked = {"model": model, "who": who, "cache": f"{home}/{model}-{who}-{repeat}"}
                        each.append(ask("bench.lookup_compile", {**order, **asked}, env=env))
    return _table(found), found


def main() -> None:
    order, answer_path = order_and_answer()
    answer_path.write_text(json.dumps(_measured(**order)))
    # TVM takes a while to leave.
    os._exit(0)


def _measured(*, url: str, token: str, model: str, who: str, cache: str) -> dict[str, float]:
    from tvm.s_tir.meta_schedule.database import MemoryDatabase

    _compile(MemoryDatabase(), "tiny")
    if who == "empty":
        return {"wall_secs": _compile(MemoryDatabase(), model)}
    began = time.perf_counter()
    import tilefarm.database

    loaded = time.perf_counter()
    import httpx

    httpx.Client(verify=False).close()
    loading = {"tilefarm_secs": loaded - began, "httpx_secs": time.perf_counter() - loaded}
    began = time.perf_counter()
    database = tilefarm.connect(url, token, cache_dir=cache, on_miss="warn" if who == "warn" else "silent")
    connecting = time.perf_counter() - began
    wall = _compile(database, model)
    stats = database.stats()
    began = time.perf_counter()
    database.close()
    return {
        "wall_secs": wall + connecting,
        "in_tilefarm_secs": stats.total_secs + connecting,
        "close_secs": time.perf_counter() - began,
        "misses": stats.misses,
        **{f"loading_{name}": secs for name, secs in loading.items()},
    }


def _compile(database: Any, name: str) -> float:
    """Seconds."""
    import tvm
    from tvm.s_tir.meta_schedule.relax_integration import compile_relax

    mod, params = _model(name)
    target = tvm.target.Target(TARGET)
    began = time.perf_counter()
    compile_relax(database, mod, target, params=params)
    return time.perf_counter() - began


def _model(name: str) -> tuple[Any, dict[str, Any] | None]:
    """Module and parameters."""
    if name != "resnet":
        return _layers(_LAYERS if name == "layers" else 1), None
    from examples.models import models

    model = models()[name]()
    return model.mod, model.tensors()


def _layers(count: int) -> Any:
    """All of another size."""
    from tvm import relax

    builder = relax.BlockBuilder()
    widths = [64 + 8 * layer for layer in range(count + 1)]
    x = relax.Var("x", relax.TensorType((16, widths[0]), "float32"))
    weights = [
        relax.Var(f"w{i}", relax.TensorType((widths[i], widths[i + 1]), "float32")) for i in range(count)
    ]
    with builder.function("main", [x, *weights]):
        with builder.dataflow():
            hidden = x
            for weight in weights:
                hidden = builder.emit(relax.op.nn.relu(relax.op.matmul(hidden, weight)))
            out = builder.emit_output(hidden)
        builder.emit_func_output(out)
    return builder.get()


def _table(found: dict[str, dict[str, list[dict[str, Any]]]]) -> str:
    rows = [_row(model, who, each) for model, by_who in found.items() for who, each in by_who.items()]
    head = ["model", "database", "misses", "compile, s", "of it in tilefarm, ms", "part", "closing, ms"]
    ours = [one for by_who in found.values() for who in ("warn", "silent") for one in by_who[who]]
    told = (
        f"{this_machine()}. A model of {_LAYERS} fused layers, and the example resnet; medians of {_REPEATS} "
        "processes, in turns, cold cache; connecting included. Loading, once a process: tilefarm "
        f"{_ms(ours, 'loading_tilefarm_secs')} ms, and with the first request httpx "
        f"{_ms(ours, 'loading_httpx_secs')} ms."
    )
    return "\n".join([told, "", *markdown_table(head, rows)])


def _row(model: str, who: str, each: list[dict[str, Any]]) -> list[str]:
    wall = statistics.median(one["wall_secs"] for one in each)
    shown = [model if who == "empty" else "", _WHO[who]]
    if who == "empty":
        return [*shown, "", f"{wall:.2f}", "", "", ""]
    part = statistics.median(one["in_tilefarm_secs"] / one["wall_secs"] for one in each)
    return [
        *shown,
        str(each[0]["misses"]),
        f"{wall:.2f}",
        _ms(each, "in_tilefarm_secs"),
        f"{100 * part:.2f} %",
        _ms(each, "close_secs"),
    ]


def _ms(each: list[dict[str, Any]], name: str) -> str:
    return f"{1e3 * statistics.median(one[name] for one in each):.0f}"


if __name__ == "__main__":
    main()
