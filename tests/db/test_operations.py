"""What a workload is searched by: the names of its blocks."""

import json
from pathlib import Path

import pytest

from db.operations import operations

_EXAMPLE = Path(__file__).parents[2] / "examples" / "mm_relu.job.json"


def module_of(*names: str) -> str:
    nodes = [{"type": "None"}]
    for name in names:
        nodes.append({"type": "ffi.String", "data": name})
        nodes.append({"type": "s_tir.SBlock", "data": {"name_hint": len(nodes) - 1}})
    return json.dumps({"root_index": 0, "nodes": nodes})


def test_the_blocks_of_a_real_module_are_named_without_its_root():
    assert operations(json.dumps(json.loads(_EXAMPLE.read_text())["module"])) == "Y C"


def test_numbers_and_the_prefix_of_topi_are_dropped_and_each_name_stands_once():
    assert operations(module_of("pad_temp", "conv2d_nchw", "T_add", "T_add_1", "compute2", "root")) == (
        "pad_temp conv2d_nchw add compute"
    )


def test_many_names_are_cut_between_two():
    said = operations(module_of(*(f"block_{letter * 30}" for letter in "abcdefghijklmnopqrst")))
    assert len(said) <= 400
    assert {len(name) for name in said.split()} == {36}


@pytest.mark.parametrize("text", ["", "{}", "[1]", '{"nodes": [{"type": "s_tir.SBlock"}]}', '{"nodes": 3}'])
def test_what_is_no_module_has_none(text: str):
    assert operations(text) == ""
