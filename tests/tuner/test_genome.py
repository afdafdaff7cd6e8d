"""Genomes read from a trace of TVM, without its text."""

import json

import pytest

from tuner.module import save_module
from tuner.search.drawing import spaces_of
from tuner.search.genome import Sketch, genome_in, genome_of
from tuner.search.options import SearchOptions
from tuner.search.replay import Replayer
from tuner.search.setup import open_setup
from tuner.trace import canonical_text


@pytest.mark.parametrize("name", ["mm", "mm_relu", "conv2d"])
def test_what_tvm_drew_is_read_as_from_the_text(name, workloads, llvm):
    module = save_module(workloads[name])
    setup = open_setup(module=module, target=llvm, space=None, seed=0, options=SearchOptions())
    replay = Replayer(setup.mod, setup.context)
    for space in spaces_of(setup.design_spaces):
        drawn = (replay.drawn(space.sketch, rand_state=number) for number in range(1, 99))
        schedule = next(each for each in drawn if each is not None)
        read = genome_in(schedule.trace, space.sketch)
        assert read is not None
        assert read == genome_of(canonical_text(schedule.trace))


def test_none_is_read_where_sampling_is_unknown():
    sketch = Sketch(json.dumps([["SamplePartitionedTile", ["l0"], [2, 64, 0, 1], ["l1", "l2"]]]))
    assert genome_in(None, sketch) is None
