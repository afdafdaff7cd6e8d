"""A record that was applied on this host before is not tried again; whatever is another one is."""

import copy
import json
from pathlib import Path
from typing import Any

import pytest
import tvm
import tvm_ffi
from tvm import relax
from tvm.s_tir import Schedule, Trace
from tvm.target import Target

from tests.checks import modules
from tests.client.conftest import TARGET, FakeService, MMRelu, database, record
from tests.client.test_database import SHASH, compiled, is_tuned
from tests.workers.author import searched
from tilefarm import applied, built_trace, module, proven
from tilefarm.proven import Proven
from tilefarm.space import trace_json

INTRINSIC = "dot_4x4_i8i8s32_neon"


@pytest.fixture
def tried(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The modules of which a schedule was made."""
    found: list[Any] = []
    untouched = applied._untouched
    monkeypatch.setattr(applied, "_untouched", lambda base: (found.append(base), untouched(base))[1])
    return found


def hand_written() -> tuple[Any, Any]:
    """A module, and a trace with the instructions that records have, decisions of every kind among them."""
    mod = modules.module("matmul_relu")
    schedule = Schedule(mod, seed=1)
    block = schedule.get_sblock("C")
    (consumer,) = schedule.get_consumers(block)
    schedule.transform_block_layout(consumer, lambda a, b: (a, b))
    i, j, k = schedule.get_loops(block)
    tiles = schedule.sample_perfect_tile(j, n=3, max_innermost_factor=16)
    j_0, j_1, j_2 = schedule.split(j, factors=[*tiles])
    k_0, k_1 = schedule.split(k, factors=[None, 4], preserve_unit_iters=True)
    schedule.reorder(i, j_0, k_0, j_1, k_1, j_2)
    schedule.vectorize(j_2)
    step = schedule.sample_categorical([0, 16, 64], [0.25, 0.35, 0.4])
    schedule.annotate(i, "pragma_auto_unroll_max_step", step)
    schedule.annotate(block, "meta_schedule.tiling_structure", "SSRSRS")
    schedule.reverse_compute_at(consumer, j_0)
    schedule.sample_compute_location(consumer)
    schedule.parallel(i)
    schedule.decompose_reduction(block, k_0)
    schedule.transform_layout(block, ("write", 0), lambda a, b: (b // 32, a, b % 32))
    return mod, trace_json(schedule)


def test_a_trace_that_is_built_is_the_one_that_tvm_reads() -> None:
    dense = modules.module("dense_layout_free")
    samples = [hand_written(), *((dense, json.loads(text)) for text in searched(dense, count=3))]
    for mod, steps in samples:
        assert {kind for kind, *_ in steps[0]}, "an empty trace says nothing"
        built = built_trace.exact(steps)
        assert trace_json(type("Made", (), {"trace": built})) == steps
        ours, theirs = Schedule(mod), Schedule(mod)
        built.apply_to_schedule(ours, remove_postproc=False)
        Trace.apply_json_to_schedule(steps, theirs)
        assert tvm_ffi.structural_equal(ours.mod, theirs.mod)
        assert not tvm_ffi.structural_equal(ours.mod, mod)


def test_what_is_left_to_tvm() -> None:
    """What a process must have registered, an index map that depends on a sample, other names than TVM's."""
    _, steps = hand_written()
    of_a_process = copy.deepcopy(steps)
    of_a_process[0].append(["Tensorize", ["b0"], [INTRINSIC, 1], []])
    sampled = copy.deepcopy(steps)
    (transform,) = [one for one in sampled[0] if one[0] == "TransformLayout"]
    (sample, *_) = [one[3][0] for one in sampled[0] if one[0] == "SamplePerfectTile"]
    own = transform[1][1]
    transform[1][1] = own.replace('"data":"a"', f'"data":"{sample}"')
    other_names = json.loads(json.dumps(steps).replace('"b0"', '"b99"'))
    assert transform[1][1] != own
    assert built_trace.exact(steps) is not None
    for trace in (of_a_process, sampled, other_names):
        assert built_trace.exact(trace) is None


def asked(db: Any) -> Any:
    return db.query_tuning_record(MMRelu, Target(TARGET), "mm_relu")


def test_the_next_process_tries_nothing_and_compiles_the_same(service: FakeService, tried: list[Any]) -> None:
    def passed(db: Any) -> Any:
        with Target(TARGET), db:
            return relax.transform.MetaScheduleApplyDatabase()(MMRelu)

    first = passed(database(service))
    assert len(tried) == 1
    assert is_tuned(first)
    again = passed(database(service))
    assert len(tried) == 1
    assert tvm_ffi.structural_equal(again, first)
    assert is_tuned(compiled(database(service)).mod)
    assert len(tried) == 2  # a schedule was asked for


def test_schedules_of_one_record_are_not_shared(service: FakeService) -> None:
    db = database(service)
    for _ in range(2):  # tried, then known
        one, other = compiled(db), compiled(db)
        one.annotate(one.get_loops(one.get_sblock("Y"))[0], "pragma_auto_unroll_max_step", 16)
        assert not tvm_ffi.structural_equal(one.mod, other.mod)
        assert tvm_ffi.structural_equal(compiled(db).mod, other.mod)


def test_a_record_that_was_changed_is_another_one(service: FakeService, tried: list[Any]) -> None:
    assert asked(database(service)) is not None
    broken = copy.deepcopy(record()["trace"])
    broken[0][0][2][0] = "no_such_block"
    for changes, hits in (({"trace": broken}, 0), ({"run_secs": [5e-6]}, 1)):
        service.records[SHASH] = record(etag=f"e{hits}", **changes)
        db = database(service)
        db.refresh()
        assert (asked(db) is not None) == bool(hits)
        assert db.stats().hits == hits
    # What is faster and does the same is not tried; what does not apply is, each time.
    assert len(tried) == 3


def test_other_builds_of_tvm_and_files_of_others_prove_nothing(
    service: FakeService, tried: list[Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert asked(database(service)) is not None
    (path,) = (tmp_path / "cache" / "applied-1").glob("*")
    path.chmod(0o666)
    assert asked(database(service)) is not None
    assert len(tried) == 2
    path.chmod(0o600)
    assert asked(database(service)) is not None
    assert len(tried) == 2
    monkeypatch.setattr(proven, "_tvm", lambda: "another")
    assert asked(database(service)) is not None
    assert len(tried) == 3


def test_a_tvm_that_was_built_again_is_another_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    library = tmp_path / "libtvm_compiler.so"
    library.write_bytes(b"one")
    monkeypatch.setattr("tvm.libinfo.package_lib_paths", lambda: [tmp_path])
    before = proven._tvm()
    assert proven._tvm() == before
    library.write_bytes(b"another")
    assert proven._tvm() != before


def test_what_is_noted_is_bounded_and_no_line_spoils_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(proven, "_MAX_KEPT", 10)
    names = [f"{number:064x}" for number in range(25)]
    for name in names:
        Proven(tmp_path).note(name)
    (path,) = tmp_path.glob("*")
    assert path.stat().st_size <= 2 * 10 * 65
    assert Proven(tmp_path).holds(names[-1])
    assert not Proven(tmp_path).holds(names[0])
    with path.open("ab") as file:
        file.write(b"torn \xff\n" + b"0" * 20)
    assert Proven(tmp_path).holds(names[-1])


def test_nothing_is_proven_where_nothing_can_be_kept(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    kept = Proven(tmp_path / "file")
    kept.note("a" * 64)
    assert kept.holds("a" * 64)
    assert not Proven(tmp_path / "file").holds("a" * 64)
    kept.note("")
    assert not kept.holds("")


def test_the_function_gets_the_asked_attributes_and_the_record_keeps_its_own(service: FakeService) -> None:
    db = database(service)
    for _ in range(2):
        found = asked(db).workload.mod["mm_relu"]
        assert dict(found.attrs.items()) == dict(MMRelu["mm_relu"].attrs.items())
    plain = module.workload_of(MMRelu["mm_relu"].without_attr("tirx.noalias"))
    stored = module.workload_of(MMRelu).module["main"]
    restored = module.restored(stored, plain.asked)
    assert "tirx.noalias" not in restored.attrs
    assert "tirx.noalias" in stored.attrs
    assert isinstance(restored, tvm.tirx.PrimFunc)
