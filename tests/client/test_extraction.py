"""The client extracts by the very code that the service extracts by."""

import ast
import inspect

import tilefarm.extraction
import tuner.extraction


def test_client_and_service_extract_by_the_same_code() -> None:
    ours, theirs = (
        ast.dump(ast.parse(inspect.getsource(source))) for source in (tilefarm.extraction, tuner.extraction)
    )
    assert ours == theirs
