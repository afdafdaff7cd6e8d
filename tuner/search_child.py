"""The search child: one search, held open inside a sandbox; it suggests candidates and is told results.

`run` answers open, suggest and update until the channel ends. Whatever goes wrong in Python is an answer and
the child lives on; a crash of TVM is seen by the parent as the child's death, and the search is opened anew
from rows. It measures nothing and knows no budget.
"""

import base64
import binascii
import time
from collections.abc import Mapping
from typing import Any

import numpy as np

from tuner.cost_model.for_target import cost_model
from tuner.errors import RequestError, TunerError
from tuner.features import pack
from tuner.intake import Channel
from tuner.search.evolutionary import EvolutionarySearch
from tuner.search.known import Known
from tuner.search.options import SearchOptions
from tuner.search.random import RandomSearch
from tuner.search.setup import SearchSetup, open_setup
from tuner.search.strategy import Candidate, Result, SearchStrategy
from tuner.space.spec import canonical_space

Answer = dict[str, Any]

#: Of a row that lost its features: the model does not see it, the search still knows the program.
_NO_FEATURES = pack(np.zeros((0, 0), dtype=np.float32))


def run(channel: Channel) -> None:
    """The entry point `tuner.search_child:run`."""
    child = SearchChild()
    while True:
        try:
            request, _ = channel.recv()
        except EOFError:
            return
        channel.send(child.answer(request))


class SearchChild:
    """Requests in, answers out; the state between them is one open search."""

    def __init__(self) -> None:
        self._strategy: SearchStrategy | None = None

    def answer(self, request: Mapping[str, Any]) -> Answer:
        try:
            return self._operate(request)
        except TunerError as error:
            return _error(error, code=error.code)
        except KeyError as error:
            return _error(RequestError(f"the request lacks {error}"), code="bad_request")
        except Exception as error:  # noqa: BLE001 - the child-process boundary: TVM raises anything
            return _error(error, code="search_failed")

    def _operate(self, request: Mapping[str, Any]) -> Answer:
        operations = {"open": self._open, "suggest": self._suggest, "update": self._update}
        operation = operations.get(str(request.get("op")))
        if operation is None:
            raise RequestError(f"there is no operation {request.get('op')!r}")
        return operation(request)

    def _open(self, request: Mapping[str, Any]) -> Answer:
        started = time.perf_counter()
        space = request.get("space")
        setup = open_setup(
            module=str(request["module"]),
            target=request["target"],
            space=None if space is None else canonical_space(space),
            seed=int(request["seed"]),
            options=SearchOptions.from_json(request.get("options") or {}),
        )
        known = Known()
        known.tell(result_from_json(result) for result in request.get("known") or ())
        for program_hash in request.get("pending") or ():
            known.suggest(program_hash=str(program_hash))
        self._strategy = _strategy(str(request["strategy"]), setup, known)
        secs = {"open": time.perf_counter() - started}
        return {"ok": True, "design_spaces": len(setup.design_spaces), "stage_secs": secs}

    def _suggest(self, request: Mapping[str, Any]) -> Answer:
        started = time.perf_counter()
        suggestion = self._opened().suggest(int(request["count"]), round_=int(request["round"]))
        return {
            "candidates": [candidate_as_json(candidate) for candidate in suggestion.candidates],
            "exhausted": suggestion.exhausted,
            "stage_secs": {"search": time.perf_counter() - started},
        }

    def _update(self, request: Mapping[str, Any]) -> Answer:
        self._opened().update([result_from_json(result) for result in request["results"]])
        return {"ok": True}

    def _opened(self) -> SearchStrategy:
        if self._strategy is None:
            raise RequestError("no search is open")
        return self._strategy


def candidate_as_json(candidate: Candidate) -> Answer:
    """As the parent reads it; features as base64."""
    return {
        "trace": candidate.trace,
        "trace_hash": candidate.trace_hash,
        "program_hash": candidate.program_hash,
        "features": base64.b64encode(candidate.features).decode(),
        "predicted_score": candidate.predicted_score,
    }


def result_from_json(obj: Mapping[str, Any]) -> Result:
    """A row's result; RequestError where a field is missing or cannot be read."""
    try:
        latency_secs = obj.get("latency_secs")
        return Result(
            trace_hash=str(obj["trace_hash"]),
            program_hash=str(obj["program_hash"]),
            features=base64.b64decode(obj["features"], validate=True) if obj["features"] else _NO_FEATURES,
            round=int(obj["round"]),
            latency_secs=None if latency_secs is None else float(latency_secs),
            censored=bool(obj.get("censored", False)),
            trace=obj.get("trace"),
        )
    except (KeyError, TypeError, ValueError, binascii.Error) as error:
        raise RequestError(f"a result does not read: {error!r}") from error


def _strategy(name: str, setup: SearchSetup, known: Known) -> SearchStrategy:
    if name == "evolutionary":
        return EvolutionarySearch(setup, known, cost_model(setup.target))
    if name == "random":
        return RandomSearch(setup, known)
    raise RequestError(f"there is no search strategy {name!r}")


def _error(error: Exception, *, code: str) -> Answer:
    return {"error": {"type": type(error).__name__, "code": code, "message": str(error)[-4000:]}}
