"""The search for a GPU, on a host that has none: TVM's own rules, whose postprocs read the trace."""

import pytest

from tests.tuner.driving import open_search, play
from tests.tuner.test_head import opened
from tuner.search.drawing import spaces_of
from tuner.search.head import Head
from tuner.target import resolve_tag
from tuner.trace import apply_trace, untouched_schedule

OURS = {"rules": "tilefarm"}


@pytest.fixture(scope="module")
def h100():
    return resolve_tag("nvidia/nvidia-h100")


@pytest.mark.parametrize("workload", ["mm_relu", "bmm_relu"])
def test_a_gpus_programs_evolve_and_their_traces_replay(workloads, h100, workload):
    mod = workloads[workload]
    search = open_search("evolutionary", mod, h100, space=OURS)
    batches = play(search, rounds=3, count=8)
    traces = {candidate.trace_hash: candidate.trace for batch in batches for candidate in batch}
    assert len(traces) >= 12
    for trace in list(traces.values())[:6]:
        assert '"threadIdx.x"' in trace
        script = str(apply_trace(trace, mod).mod.script())
        assert 'thread="blockIdx.x"' in script


def test_what_fetches_together_has_no_head(workloads, h100):
    """TVM's postproc goes on with the blocks that the trace names, and a head names them anew."""
    setup = opened(workloads["mm"], h100, OURS)
    sketches = [each.sketch for each in spaces_of(setup.design_spaces) if each.choices is not None]
    fetching = [sketch for sketch in sketches if "cooperative_fetch" in sketch.text]
    assert fetching
    for sketch in fetching:
        with pytest.raises(ValueError, match="postprocs"):
            Head.of(sketch, untouched_schedule(workloads["mm"]))
