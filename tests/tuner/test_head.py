"""A program that goes on from its sketch's head is the one that the whole trace gives, and has that trace."""

import json
from random import Random

import pytest

from tuner.module import save_module, structural_hash
from tuner.search.drawing import spaces_of
from tuner.search.genome import Genome, Sketch
from tuner.search.head import Head
from tuner.search.options import SearchOptions
from tuner.search.replay import Replayer, trace_text
from tuner.search.setup import open_setup
from tuner.trace import apply_trace, canonical_text, untouched_schedule


def opened(mod, target, space):
    return open_setup(module=save_module(mod), target=target, space=space, seed=0, options=SearchOptions())


def from_the_start(genome, setup):
    """None where a postproc rejects it."""
    schedule = apply_trace(genome.trace(), setup.mod)
    schedule.enter_postproc()
    fits = all(postproc.apply(schedule) for postproc in setup.context.space_generator.postprocs)
    return schedule if fits else None


@pytest.mark.parametrize("space", [None, {"rules": "tilefarm"}], ids=["stock", "tilefarm"])
@pytest.mark.parametrize("workload", ["mm", "mm_relu", "bmm_relu", "conv2d", "linear0"])
def test_programs_and_traces_are_those_of_a_whole_replay(workloads, llvm, workload, space):
    setup = opened(workloads[workload], llvm, space)
    replay, random, seen = Replayer(setup.mod, setup.context), Random(0), 0
    for each in spaces_of(setup.design_spaces):
        if each.choices is None:
            continue
        genomes = [each.choices.drawn(random) for _ in range(3)]
        for genome in (*genomes, genomes[0]):  # the last: a copy's replay changes no other's
            schedule, whole = replay(genome), from_the_start(genome, setup)
            assert (schedule is None) == (whole is None)
            if whole is not None:
                assert structural_hash(schedule.mod) == structural_hash(whole.mod)
                assert trace_text(schedule, genome) == canonical_text(whole.trace)
                seen += 1
    assert seen


def test_what_a_convolution_packs_is_packed_once(workloads, llvm):
    """Of our spaces' instructions the first dozens are heads: a sketch whose head is not found costs them."""
    setup = opened(workloads["conv2d"], llvm, {"rules": "tilefarm"})
    untouched = untouched_schedule(setup.mod)
    longest = 0
    for each in spaces_of(setup.design_spaces):
        if each.choices is not None and each.sketch.sites[0].index > 12:
            head = Head.of(each.sketch, untouched)
            longest = max(longest, len(head.schedule.trace.insts))
            assert len(head.rest) < len(each.sketch.instructions)
    assert longest > 12


def test_a_sketch_without_a_head_is_replayed_from_the_start(workloads, llvm):
    """Two blocks of one name cannot be looked up; here the name is of none, and the replay says so."""
    setup = opened(workloads["mm"], llvm, None)
    instructions = [
        ["GetSBlock", [], ["nowhere", "main"], ["b0"]],
        ["GetLoops", ["b0"], [], ["l1", "l2", "l3"]],
        ["SamplePerfectTile", ["l1"], [2, 16], ["v4", "v5"]],
    ]
    genome = Genome(Sketch(json.dumps(instructions)), ((32, 4),))
    assert Replayer(setup.mod, setup.context)(genome) is None
