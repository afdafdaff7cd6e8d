"""What the API answers, read with care: a proxy or a release of another time may stand where the API was."""

from collections.abc import Callable
from typing import Any, TypeVar

import httpx

from workers.errors import AnswerUnreadable

_T = TypeVar("_T")
_UNREADABLE = (ValueError, LookupError, TypeError, AttributeError, ArithmeticError, RecursionError)


def read_answer(answer: httpx.Response, read: Callable[[Any], _T]) -> _T:
    """What `read` makes of the answer's JSON; raises AnswerUnreadable, which names the request."""
    try:
        return read(answer.json())
    except _UNREADABLE as error:
        request = f"{answer.request.method} {answer.request.url.path}"
        raise AnswerUnreadable(
            f"the answer to {request} does not read: {error!r}; {answer.text[:300]}"
        ) from error
