"""The canonical form of a target: the golden vectors that the client's copy obeys too, and its laws."""

import json
from pathlib import Path

import pytest

from checks.target import TargetError, canonical, is_profile_name, is_tag, key

VECTORS = json.loads((Path(__file__).parents[1] / "data" / "target_vectors.json").read_text())


@pytest.mark.parametrize("vector", VECTORS["accepted"], ids=lambda v: v["key"][:8])
def test_golden_vectors_have_their_canonical_form_and_key(vector):
    form = canonical(vector["target"])
    assert form == vector["canonical"]
    assert key(form) == vector["key"]


@pytest.mark.parametrize("vector", VECTORS["accepted"], ids=lambda v: v["key"][:8])
def test_a_canonical_form_is_its_own_canonical_form(vector):
    assert canonical(vector["canonical"]) == vector["canonical"]


@pytest.mark.parametrize("vector", VECTORS["refused"], ids=lambda v: json.dumps(v["target"])[:50])
def test_refused_targets_say_why(vector):
    with pytest.raises(TargetError) as refusal:
        canonical(vector["target"])
    assert refusal.value.code == vector["code"]


def test_targets_that_differ_in_cores_or_cpu_have_different_keys():
    targets = [
        {"kind": "llvm", "mcpu": mcpu, "num-cores": cores}
        for mcpu in ("znver4", "rocketlake")
        for cores in (1, 2)
    ]
    assert len({key(canonical(target)) for target in targets}) == 4


def test_the_order_of_features_and_the_host_change_nothing():
    one = {"kind": "llvm", "mcpu": "znver4", "num-cores": 2, "mattr": ["+b", "+a"], "host": {"kind": "llvm"}}
    other = {"mattr": ["+a", "+b"], "num-cores": 2, "mcpu": "znver4", "kind": "llvm"}
    assert key(canonical(one)) == key(canonical(other))


def test_a_refusal_quotes_at_most_sixty_characters_of_what_was_sent():
    with pytest.raises(TargetError) as refusal:
        canonical({"kind": "llvm", "mcpu": "x" * 100_000, "num-cores": 1})
    assert len(refusal.value.detail) < 120


@pytest.mark.parametrize("name", ["nvidia/nvidia-h100", "raspberry-pi/4b-aarch64", "aws/cpu/c5.large"])
def test_tags_look_like_tags(name):
    assert is_tag(name)
    assert not is_profile_name(name)


@pytest.mark.parametrize("name", ["local", "rocketlake-2c", "h100.pcie"])
def test_profile_names_are_no_tags(name):
    assert is_profile_name(name)
    assert not is_tag(name)
