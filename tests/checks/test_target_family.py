"""Near is a rule with a name: one field differs, and a CPU is near another only within its family."""

import pytest

from checks.target_family import FAMILIES, NearRule, distance, near_by

TARGET = {"kind": "llvm", "mcpu": "znver4", "num-cores": 8}


@pytest.mark.parametrize(
    ("change", "rule"),
    [
        ({}, None),
        ({"num-cores": 4}, NearRule.NUM_CORES),
        ({"mcpu": "rocketlake"}, NearRule.MCPU_FAMILY),
        ({"mcpu": "haswell"}, None),
        ({"mcpu": "of-no-family"}, None),
        ({"mcpu": "rocketlake", "num-cores": 4}, None),
        ({"mattr": ["+avx512fp16"]}, None),
        ({"kind": "cuda"}, None),
    ],
)
def test_one_field_may_differ(change, rule):
    other = {**TARGET, **change}
    assert near_by(TARGET, other) == near_by(other, TARGET) == rule


def test_no_cpu_is_of_two_families():
    names = [name for family in FAMILIES for name in family]
    assert len(names) == len(set(names))


def test_the_nearest_number_of_cores_comes_before_any_other_cpu():
    others = [{**TARGET, "mcpu": "znver5"}, {**TARGET, "num-cores": 64}, {**TARGET, "num-cores": 6}]
    assert sorted(others, key=lambda other: distance(TARGET, other)) == others[::-1]
