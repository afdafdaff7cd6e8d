"""What each SearchStrategy promises, run on both."""

import dataclasses
from random import Random

import pytest

from checks.space import named_space
from tests.tuner.contractions import computed
from tests.tuner.driving import latency_of, measured, open_search, play
from tuner.errors import SpaceError
from tuner.features import N_FEATURES, unpack
from tuner.module import structural_hash
from tuner.search.drawing import Drawing
from tuner.search.known import Known
from tuner.search.picks import Picks
from tuner.search.sampling import fill
from tuner.trace import apply_trace, trace_hash


class Barren(Drawing):
    """No draw passes its postprocs."""

    is_dry = False
    refused_by = frozenset({"VerifyGPUCode", "DisallowDynamicLoop"})

    def draw(self, count, weights=None):  # noqa: ARG002
        return []


@pytest.fixture(params=["evolutionary", "random"])
def kind(request):
    return request.param


def test_no_program_is_suggested_twice(kind, workloads, llvm):
    batches = play(open_search(kind, workloads["mm_relu"], llvm), rounds=4)
    programs = [candidate.program_hash for batch in batches for candidate in batch]
    assert len(programs) == 32
    assert len(set(programs)) == 32


@pytest.mark.parametrize("workload", ["mm", "mm_relu", "bmm_relu", "conv2d", "linear0"])
def test_a_candidate_is_what_its_trace_gives(kind, workloads, llvm, workload):
    search = open_search(kind, workloads[workload], llvm, result_lag=1)
    for candidate in [candidate for batch in play(search, rounds=2, count=2) for candidate in batch]:
        schedule = apply_trace(candidate.trace, workloads[workload])
        assert structural_hash(schedule.mod) == candidate.program_hash
        assert trace_hash(candidate.trace) == candidate.trace_hash
        assert unpack(candidate.features).shape[1] == N_FEATURES


def test_the_hand_written_space_holds_five_programs_and_then_is_exhausted(kind, workloads, llvm, mm_space):
    search = open_search(kind, workloads["mm"], llvm, space=mm_space)
    first = search.suggest(16, round_=0)
    assert len(first.candidates) == 5
    assert not first.exhausted
    search.update([measured(candidate, round_=0) for candidate in first.candidates])
    for round_ in (1, 2, 3):
        assert search.suggest(16, round_=round_) == dataclasses.replace(first, candidates=(), exhausted=True)


def test_a_small_space_is_emptied_in_small_batches_too(kind, workloads, llvm, mm_space):
    search = open_search(kind, workloads["mm"], llvm, space=mm_space, result_lag=1)
    batches = play(search, rounds=5, count=2)
    assert [len(batch) for batch in batches] == [2, 2, 1, 0, 0]
    assert {latency_of(candidate.trace) for batch in batches for candidate in batch} == {
        1e-4 * (1 + distance) for distance in (0, 1, 2, 3)
    }


def test_a_space_with_one_program_is_a_success(kind, workloads, llvm):
    search = open_search(kind, workloads["broadcast_add"], llvm)
    assert len(search.suggest(4, round_=0).candidates) == 1
    assert search.suggest(4, round_=1).exhausted


def test_several_design_spaces_are_all_drawn_from(kind, workloads, llvm, mm_space):
    (trace,) = mm_space["traces"]
    instructions, decisions = trace
    without_reorder = [[i for i in instructions if i[0] not in ("Reorder", "DecomposeReduction")], decisions]
    search = open_search(kind, workloads["mm"], llvm, space={**mm_space, "traces": [trace, without_reorder]})
    assert len(search.suggest(32, round_=0).candidates) == 10


def test_default_postprocs_apply_where_none_are_named(kind, workloads, llvm, mm_space):
    search = open_search(kind, workloads["mm"], llvm, space={"traces": mm_space["traces"]})
    candidates = search.suggest(4, round_=0).candidates
    assert candidates
    assert all("EnterPostproc" in candidate.trace for candidate in candidates)


def test_named_postprocs_and_mutators_are_used(kind, workloads, llvm, mm_space):
    space = {**mm_space, "postprocs": ["DisallowDynamicLoop"], "mutators": {"MutateTileSize": 1.0}}
    batches = play(open_search(kind, workloads["mm"], llvm, space=space, result_lag=1), rounds=3, count=2)
    assert [len(batch) for batch in batches] == [2, 2, 1]


def test_a_result_told_twice_changes_nothing(kind, workloads, llvm):
    once, twice = (open_search(kind, workloads["mm"], llvm, result_lag=1) for _ in range(2))
    first = play(once, rounds=1)[0]
    play(twice, rounds=1)
    twice.update([measured(candidate, round_=0, latency_secs=1.0) for candidate in first])
    assert twice.suggest(4, round_=1) == once.suggest(4, round_=1)


def test_the_order_in_which_results_arrive_changes_nothing(kind, workloads, llvm):
    in_order, reversed_ = (open_search(kind, workloads["mm"], llvm, result_lag=1) for _ in range(2))
    batch = in_order.suggest(8, round_=0).candidates
    assert reversed_.suggest(8, round_=0).candidates == batch
    in_order.update([measured(candidate, round_=0) for candidate in batch])
    for candidate in batch[::-1]:
        reversed_.update([measured(candidate, round_=0)])
    assert reversed_.suggest(8, round_=1) == in_order.suggest(8, round_=1)


def test_a_batch_does_not_see_the_results_of_the_batch_before(kind, workloads, llvm):
    early, late = (open_search(kind, workloads["mm"], llvm) for _ in range(2))
    batches = play(early, rounds=3)
    for round_ in range(3):
        assert late.suggest(8, round_=round_).candidates == batches[round_]
        if round_:
            late.update([measured(candidate, round_=round_ - 1) for candidate in batches[round_ - 1]])


def test_another_seed_suggests_otherwise(kind, workloads, llvm):
    one, other = (open_search(kind, workloads["mm"], llvm, seed=seed) for seed in (1, 2))
    assert one.suggest(8, round_=0) != other.suggest(8, round_=0)


def test_what_is_pending_is_not_suggested_again(kind, workloads, llvm, mm_space):
    first = open_search(kind, workloads["mm"], llvm, space=mm_space).suggest(3, round_=0).candidates
    pending = [candidate.program_hash for candidate in first]
    rest = open_search(kind, workloads["mm"], llvm, space=mm_space, pending=pending).suggest(16, round_=1)
    assert len(rest.candidates) == 2
    assert not {candidate.program_hash for candidate in rest.candidates} & set(pending)


def test_a_space_that_never_gives_a_program_is_an_error():
    known = Known()
    with pytest.raises(SpaceError, match="DisallowDynamicLoop, VerifyGPUCode"):
        fill(Picks(count=4, known=known), known=known, drawing=Barren((), None, Random(0)))


@pytest.mark.parametrize("named", ["stock", "tilefarm"])
def test_where_no_program_passes_the_error_says_what_refuses_them(kind, llvm, named):
    """Windows of an adaptive pool that differ are loops whose extents are no constants."""
    mod = computed(lambda topi, x: topi.nn.adaptive_pool(x, (3, 3), "avg"), (1, 16, 14, 14))
    space, _ = named_space(named)
    with pytest.raises(SpaceError, match=r"passes its postprocs: DisallowDynamicLoop$"):
        open_search(kind, mod, llvm, space=space).suggest(4, round_=0)


@pytest.mark.parametrize(
    ("mcpu", "mtriple"),
    [
        ("cortex-a72", "aarch64-linux-gnu"),
        ("neoverse-n1", "aarch64-linux-gnu"),
        ("sifive-u74", "riscv64-unknown-linux-gnu"),
        ("sifive-x280", "riscv64-unknown-linux-gnu"),
    ],
)
@pytest.mark.parametrize("named", ["stock", "tilefarm"])
def test_a_search_for_another_architecture_has_that_ones_intrinsics(kind, workloads, mcpu, mtriple, named):
    """TVM's rules for AArch64, and for RISC-V with vectors, name some without which they cannot be made."""
    target = {"kind": "llvm", "mcpu": mcpu, "mtriple": mtriple, "num-cores": 2}
    space, _ = named_space(named)
    assert len(open_search(kind, workloads["mm"], target, space=space).suggest(3, round_=0).candidates) == 3


def test_postprocs_of_another_kind_of_target_are_an_error_of_the_space(kind, workloads, llvm, mm_space):
    with pytest.raises(SpaceError):
        open_search(kind, workloads["mm"], llvm, space={**mm_space, "postprocs": ["VerifyGPUCode"]})


def test_a_trace_that_does_not_fit_is_refused_at_once(kind, workloads, llvm, mm_space):
    with pytest.raises(SpaceError):
        open_search(kind, workloads["conv2d"], llvm, space=mm_space)
