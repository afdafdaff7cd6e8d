"""A design space has one hash and one canonical form."""

import hashlib
import json

import pytest

from tuner.errors import SpaceError
from tuner.space.generator import space_generator
from tuner.space.spec import canonical_space, space_hash
from tuner.target import make_target


def test_the_hash_is_of_compact_sorted_json(mm_space):
    text = json.dumps(mm_space, sort_keys=True, separators=(",", ":"))
    assert space_hash(mm_space) == hashlib.sha256(text.encode()).hexdigest()
    assert space_hash(None) == hashlib.sha256(b'"post-order-apply"').hexdigest()


def test_a_trace_that_knows_the_function_by_another_name_is_renamed(mm_space):
    text = json.dumps(mm_space).replace('"main"', '"linear0"')
    assert canonical_space(json.loads(text), function="linear0") == mm_space


def test_absent_names_and_empty_names_are_different_spaces(mm_space):
    default_rules = {"traces": mm_space["traces"]}
    assert canonical_space({**default_rules, "postprocs": None, "mutators": None}) == default_rules
    assert space_hash(canonical_space(mm_space)) != space_hash(canonical_space(default_rules))


@pytest.mark.parametrize("space", [[], {}, {"traces": "x"}, {"traces": [[[], []]], "more": 1}])
def test_what_is_no_space_is_refused(space):
    with pytest.raises(SpaceError):
        canonical_space(space)


def test_rules_that_there_are_not_span_nothing(llvm):
    with pytest.raises(SpaceError, match="no rules 'stock'"):
        space_generator({"rules": "stock"}, make_target(llvm))
