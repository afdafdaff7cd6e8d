"""A user's file is parsed quickly to what the parser makes of it alone."""

import inspect
import sys
from pathlib import Path

import pytest

from tilefarm.cli import quick_parser, sources

_FILE = """
from __future__ import annotations

from tvm.script import ir as I
from tvm.script import tirx as T


def scaled(extent):
    dtype = "float32"

    @T.prim_func(s_tir=True)
    def scale(a: T.Buffer((extent,), dtype), b: T.Buffer((extent,), dtype)):
        for i in range(extent):
            with T.sblock("b"):
                vi = T.axis.spatial(extent, i)
                b[vi] = a[vi] * T.float32(2)

    return scale


@I.ir_module
class Module:
    @T.prim_func(s_tir=True)
    def main(a: T.Buffer((8,), "float32"), b: T.Buffer((8,), "float32")):
        for i in range(8):
            with T.sblock("b"):
                vi = T.axis.spatial(8, i)
                b[vi] = a[vi] + T.float32(1)


closure = scaled(32)
"""


def test_functions_in_classes_and_closures(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "functions.py"
    path.write_text(_FILE)
    before = inspect.stack
    quick = sources.read(path, functions=["closure"]).names
    assert inspect.stack is before
    monkeypatch.setattr(quick_parser, "_stack", _library_stack)
    slow = sources.read(path, functions=["closure"]).names
    for name in ("Module", "closure"):
        assert quick[name].script() == slow[name].script()
    assert "(32,)" in quick["closure"].script()


def _library_stack(context: int = 1) -> list[inspect.FrameInfo]:
    return inspect.getouterframes(sys._getframe(1), context)
