"""Ranges of integer inputs are named by parameter, and kept by position: a workload has no names."""

import pytest
from sqlalchemy import select

from db.session import transaction
from db.tables import SearchRow
from tests.api.conftest import problem
from workers.messages import MeasurePolicy


def policies(engine) -> list[dict]:
    with transaction(engine) as session:
        return list(session.scalars(select(SearchRow.policy)))


def test_a_gathers_indices_have_a_range_of_their_own(api, engine):
    answer = api.submit(module="gather", options={"input_ranges": {"indices": [2, 9]}})
    assert answer.status_code == 201, answer.text
    (policy,) = policies(engine)
    assert policy["input_ranges"] == [[1, 2, 9]]
    assert MeasurePolicy.from_json(policy).input_ranges == ((1, 2, 9),)


def test_another_range_is_another_search(api):
    searches = {
        api.submit(module="gather", options=options).json()["tasks"][0]["search_id"]
        for options in ({}, {"input_ranges": {"indices": [0, 3]}}, {"input_ranges": {"indices": [0, 4]}})
    }
    assert len(searches) == 3


@pytest.mark.parametrize("ranges", [{"no_such": [0, 2]}, {"table": [0, 2]}], ids=str)
def test_a_range_names_an_integer_parameter_of_the_module(api, ranges):
    refused = problem(api.submit(module="gather", options={"input_ranges": ranges}), 422)
    assert refused["code"] == "bad_option"
    assert next(iter(ranges)) in refused["detail"]


@pytest.mark.parametrize("pair", [[2, 2], [0, 1.5], [True, 2], [0], "0-4", [0, 2**63], None], ids=str)
def test_a_range_is_two_integers_the_low_below_the_high(api, pair):
    refused = problem(api.submit(module="gather", options={"input_ranges": {"indices": pair}}), 422)
    assert "input_ranges['indices'] is [low, high]" in refused["detail"]


def test_ranges_that_are_no_mapping_are_refused(api):
    refused = problem(api.submit(module="gather", options={"input_ranges": [1, 2]}), 422)
    assert "input_ranges maps" in refused["detail"]
