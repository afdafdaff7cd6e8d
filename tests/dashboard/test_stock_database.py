"""The zip of the records page is what stock reads, line for line what `tilefarm export` writes."""

import base64
import hashlib
import io
import json
import zipfile
import zlib
from pathlib import Path

import tvm
import tvm_ffi
from tvm.s_tir.meta_schedule.database import JSONDatabase
from tvm.target import Target

from checks.target import canonical, key
from db.session import transaction
from db.tables import RecordRow
from db.targets import store_target
from db.workloads import NewWorkload, store_workload
from tests.client.conftest import TARGET, MMRelu, record
from tests.client.test_database import compiled
from tilefarm import applied, module
from tilefarm.answers import Record
from tilefarm.stockfiles import StockFiles

KEY = key(canonical(TARGET))
ADDRESS = f"/download/database.zip?target_key={KEY}&tvm_version={tvm.__version__}"
ARGS = [{"shape": [64, 64], "dtype": "float32"}] * 3


def published(engine, *, run_secs=(1e-5, 1.1e-5), state="published") -> None:
    """A record of MMRelu, as the tuner service publishes it."""
    told = record()
    with transaction(engine) as session:
        target = store_target(session, canonical(TARGET), key=KEY)
        shash = module.workload_of(MMRelu).shash
        new = NewWorkload(
            tvm_version=tvm.__version__, shash=shash, module=told["module"], flops=5e5, args=ARGS
        )
        workload_id = store_workload(session, new, known=0) or 1
        text = json.dumps(told["trace"])
        row = RecordRow(
            workload_id=workload_id, target_id=target.id, tvm_version=tvm.__version__, state=state,
            trace_z=zlib.compress(text.encode()), trace_hash=hashlib.sha256(text.encode()).hexdigest(),
            run_secs=list(run_secs), latency_secs=run_secs[0], policy={}, device_class="test",
        )  # fmt: skip
        session.add(row)


def lines(path: Path) -> list:
    """Modules unpacked, for stock's have spaces between their words; targets as TVM reads them."""
    found = [json.loads(line) for line in path.read_text().splitlines()]
    for line in found:
        if path.name == "database_workload.json":
            line[1] = json.loads(base64.b64decode(line[1])[8:])
        else:
            line[1][2] = str(Target(line[1][2]))
    return found


def test_stock_loads_the_zip_of_the_page_and_it_is_what_the_cli_exports(browse, engine, tmp_path):
    published(engine, run_secs=(2e-5,))
    published(engine)
    published(engine, run_secs=(1e-9,), state="quarantined")
    browser = browse()
    assert ADDRESS.replace("&", "&amp;") in browser.page("/records")
    answer = browser.get(ADDRESS)
    assert answer.status_code == 200
    assert 'filename="tuned-x86-64-v3-2.zip"' in answer.headers["content-disposition"]
    with zipfile.ZipFile(io.BytesIO(answer.content)) as archive:
        assert archive.testzip() is None
        archive.extractall(tmp_path / "ours")
    stock = JSONDatabase(work_dir=str(tmp_path / "ours"))
    assert len(stock) == 1
    asked = module.workload_of(MMRelu).module
    found = stock.query_tuning_record(asked, Target(TARGET), "main")
    assert [float(secs) for secs in found.run_secs] == [1e-5, 1.1e-5]
    told = record()
    theirs = applied.apply(
        Record(**{name: told[name] for name in Record.__dataclass_fields__ if name in told}),
        module.workload_of(asked),
    )
    assert tvm_ffi.structural_equal(compiled(stock, asked).mod, theirs.schedule().mod)
    with StockFiles(tmp_path / "theirs") as files:
        files.add(theirs, Target(TARGET), {})
    for name in ("database_workload.json", "database_tuning_record.json"):
        ours, exported = (lines(tmp_path / whose / name) for whose in ("ours", "theirs"))
        assert ours == exported
    (origin,) = (tmp_path / "ours" / "database_provenance.json").read_text().splitlines()
    assert json.loads(origin)["record_id"] == 2


def test_a_zip_of_nothing_and_one_without_the_right_are_refused(browse, engine):
    published(engine, state="quarantined")
    assert "database.zip" not in browse().page("/records")
    assert browse().get(ADDRESS).status_code == 404
    assert browse(None).get(ADDRESS).status_code == 401
    assert browse().get(ADDRESS.replace(KEY, "x")).status_code == 422
