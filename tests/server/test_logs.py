"""Every line of a role's log is JSON, what libraries, warnings and dying threads leave included."""

import json
import subprocess
import sys
from typing import Any

import pytest


def lines_of(program: str) -> tuple[list[dict[str, Any]], str]:
    """The lines of a process whose logs are set up, and what went past them."""
    words = [sys.executable, "-W", "always", "-c", f"from services import logs\nlogs.configure()\n{program}"]
    run = subprocess.run(words, capture_output=True, text=True, check=False)
    return [json.loads(line) for line in run.stdout.splitlines()], run.stderr


def test_a_thread_that_dies_is_logged_as_an_event():
    program = """
import threading
thread = threading.Thread(target=lambda: [].pop(), name="results")
thread.start()
thread.join()
"""
    (line,), said = lines_of(program)
    assert (line["event"], line["level"], line["thread"]) == ("thread_died", "error", "results")
    assert "IndexError: pop from empty list" in line["exception"]
    assert said == ""


def test_a_process_that_dies_is_too():
    (line,), said = lines_of("[].pop()")
    assert (line["event"], line["level"], said) == ("process_died", "error", "")
    assert "IndexError: pop from empty list" in line["exception"]


@pytest.mark.parametrize(
    ("statement", "level", "text"),
    [
        ("logging.getLogger('uvicorn').warning('Invalid HTTP %s', 'request')", "warning", "HTTP request"),
        ("logging.getLogger('asyncio').critical('gone\\nand more')", "error", "gone\nand more"),
        ("logging.getLogger('x').warning('%d of %d', 'one')", "warning", "%d of %d ('one',)"),
        ("logging.getLogger('x').log(35, 'between')", "warning", "between"),
        ("warnings.warn('it will go', DeprecationWarning)", "warning", "DeprecationWarning: it will go"),
    ],
)  # fmt: skip
def test_what_a_library_says_is_one_line(statement, level, text):
    (line,), said = lines_of(f"import logging, warnings\n{statement}")
    assert (line["event"], line["level"], said) == ("library_said", level, "")
    assert text in line["text"]


def test_a_librarys_traceback_is_a_field():
    program = """
import logging
try:
    [].pop()
except IndexError:
    logging.getLogger("uvicorn.error").exception("Exception in ASGI application")
"""
    (line,), said = lines_of(program)
    assert (line["library"], line["text"], said) == ("uvicorn.error", "Exception in ASGI application", "")
    assert "IndexError: pop from empty list" in line["exception"]


def test_what_libraries_tell_of_their_everyday_is_left_out():
    assert lines_of("import logging\nlogging.getLogger('httpx').info('GET 200')") == ([], "")


def test_an_exception_in_a_destructor_is_an_event():
    (line,), said = lines_of("class A:\n    def __del__(self):\n        [].pop()\na = A()\ndel a\n")
    assert (line["event"], said) == ("exception_ignored", "")
    assert "A.__del__" in line["where"]
