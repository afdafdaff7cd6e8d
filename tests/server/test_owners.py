"""Weights of owners, as an operator sets and reads them."""

import pytest

from services.server import owners


def test_a_weight_is_set_and_told(database_url: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert owners.list_all(database_url) == 0
    assert owners.weigh(database_url, name="alice", weight=2.5) == 0
    assert owners.weigh(database_url, name="bob", weight=1) == 0
    capsys.readouterr()
    assert owners.list_all(database_url) == 0
    assert capsys.readouterr().out.split() == ["alice", "2.5"]


def test_a_weight_that_is_none_is_refused(database_url: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert owners.weigh(database_url, name="alice", weight=0) == 2
    assert "positive" in capsys.readouterr().err
