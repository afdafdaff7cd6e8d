"""The same records twice: as stock MetaSchedule's two files, and as rows of the service.

Workloads are small (an elementwise kernel each, of another length) and traces short, so that stock can open
100,000 of them at all; both sides hold the same. Ten records stand for each workload.
"""

import base64
import json
import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

from sqlalchemy import insert

from checks.target import canonical, key
from db.migrate import upgrade
from db.session import connect, transaction
from db.tables import RecordRow, TargetRow, WorkloadRow
from db.tokens import create_token

TARGET = canonical({"kind": "llvm", "mcpu": "x86-64-v3", "num-cores": 2})
RECORDS_PER_WORKLOAD = 10
_STEP = 64
_BATCH = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    #: Which of `function` it is.
    number: int
    shash: str
    #: Canonical module JSON text.
    module: str


def function(number: int) -> Any:
    """The PrimFunc of a workload; needs TVM."""
    from tvm import te

    a = te.placeholder((_STEP * (number + 1),), name="A")
    b = te.compute(a.shape, lambda i: a[i] * a[i], name="B")
    return te.create_prim_func([a, b])


def workloads(count: int) -> Iterator[Workload]:
    import tvm

    from tilefarm import module

    for number in range(count):
        found = module.workload_of(tvm.IRModule({"main": function(number)}))
        yield Workload(number=number, shash=found.shash, module=module.to_json(found.module))


def trace(number: int, version: int) -> Any:
    """Of the workload, one for each version below RECORDS_PER_WORKLOAD."""
    inner = 2 ** (version % 7)
    decision = [_STEP * (number + 1) // inner, inner]
    return [
        [
            ["GetSBlock", [], ["B", "main"], ["b0"]],
            ["GetLoops", ["b0"], [], ["l1"]],
            ["SamplePerfectTile", ["l1"], [2, 64], ["v2", "v3"]],
            ["Split", ["l1", "v2", "v3"], [1, 0], ["l4", "l5"]],
            ["Parallel", ["l4"], [], []],
            ["Annotate", ["l5", version], ["pragma_auto_unroll_max_step"], []],
        ],
        [[2, decision]],
    ]


def write_stock(directory: Path, made: list[Workload]) -> None:
    """database_workload.json and database_tuning_record.json."""
    directory.mkdir(parents=True)
    with (directory / "database_workload.json").open("w") as file:
        for workload in made:
            # A stream of TVM's: the length, then the text.
            stream = struct.pack("<Q", len(workload.module)) + workload.module.encode()
            text = base64.b64encode(stream).decode()
            file.write(json.dumps([str(int(workload.shash, 16)), text]) + "\n")
    with (directory / "database_tuning_record.json").open("w") as file:
        for index, workload in enumerate(made):
            shape = [_STEP * (workload.number + 1)]
            args = [["TENSOR", "float32", shape]] * 2
            for version in range(RECORDS_PER_WORKLOAD):
                record = [trace(workload.number, version), [1e-5 / (version + 1)], TARGET, args]
                file.write(json.dumps([index, record]) + "\n")


def write_rows(url: str, made: list[Workload], *, tvm_version: str) -> str:
    """All of it published, the last version of each workload the current one; a token that may look up."""
    upgrade(url)
    engine = connect(url)
    with transaction(engine) as session:
        target_id = session.scalars(
            insert(TargetRow).values(key=key(TARGET), canonical=TARGET).returning(TargetRow.id)
        ).one()
        token = create_token(session, "bench", scopes=["records:read"])
    for start in range(0, len(made), _BATCH):
        batch = made[start : start + _BATCH]
        with transaction(engine) as session:
            session.execute(insert(WorkloadRow), [_workload(each, tvm_version) for each in batch])
            session.execute(
                insert(RecordRow),
                [
                    _record(each, version, target_id=target_id, tvm_version=tvm_version)
                    for each in batch
                    for version in range(RECORDS_PER_WORKLOAD)
                ],
            )
    engine.dispose()
    return token


def _workload(each: Workload, tvm_version: str) -> dict[str, Any]:
    return {
        "id": each.number + 1,
        "tvm_version": tvm_version,
        "shash": each.shash,
        "ordinal": 0,
        "module_z": zlib.compress(each.module.encode(), 1),
        "module_sha256": sha256(each.module.encode()).hexdigest(),
        "flops": 1.0,
        "args": [],
    }


def _record(each: Workload, version: int, *, target_id: int, tvm_version: str) -> dict[str, Any]:
    text = json.dumps(trace(each.number, version), separators=(",", ":"))
    return {
        "workload_id": each.number + 1,
        "target_id": target_id,
        "tvm_version": tvm_version,
        "state": "published",
        "trace_z": zlib.compress(text.encode()),
        "trace_hash": sha256(text.encode()).hexdigest(),
        "run_secs": [1e-5 / (version + 1)],
        "latency_secs": 1e-5 / (version + 1),
        "policy": {},
        "device_class": "bench",
    }
