"""Which cores build while others measure follows from the target and the device alone."""

import pytest

from workers.cores import divide


@pytest.mark.parametrize(
    ("num_cores", "cpus", "measure", "build", "turns"),
    [
        (1, (0, 1), (1,), (0,), False),
        (2, (0, 1), (0, 1), (0, 1), True),
        (8, (0, 1), (0, 1), (0, 1), True),
        (1, (5,), (5,), (5,), True),
        (2, (2, 3, 6, 7), (6, 7), (2, 3), False),
        (3, (2, 3, 6, 7), (3, 6, 7), (2,), False),
    ],
)
def test_a_target_that_leaves_cores_free_is_built_on_those(num_cores, cpus, measure, build, turns):
    cores = divide({"num-cores": num_cores}, cpus)
    assert (cores.measure_cpus, cores.build_cpus, cores.takes_turns) == (measure, build, turns)
    assert cores.threads == len(measure)


def test_a_target_that_names_no_cores_takes_one():
    assert divide({"kind": "llvm"}, (0, 1)).measure_cpus == (1,)
