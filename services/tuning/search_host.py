"""Search children: one per live search, a bounded number, asked in threads so that the loop never waits.

A child is a cache of rows: it may be closed at any moment and is opened again from what the rows say. It is
told exactly the results that the round asked for may see. Nothing here writes a row.
"""

import base64
import json
import re
import time
import zlib
from collections import OrderedDict
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import structlog
from sqlalchemy import Engine
from sqlalchemy.exc import SQLAlchemyError

from db import rounds, searches
from db.rounds import KnownTrial
from db.searches import Search
from db.session import reading
from db.states import Outcome
from sandbox.channel import Frame
from sandbox.errors import ForkServerDied, SpawnRefused
from services.tuning.errors import FarmError, SearchChildError
from services.tuning.settings import TunerSettings
from tuner.search.strategy import Candidate

_log = structlog.get_logger(__name__)

#: Rounds that a search may run before its child can be closed in favour of another search.
_ROUNDS_PER_TURN = 2
#: What a round takes to be searched, as long as none was.
_ROUND_SECS = 1.0
_SHUT_DOWN_POLL_SECS = 0.02
_HASH = re.compile(r"[0-9a-f]{16,64}")


class SearchChild(Protocol):
    """What is used of sandbox.child.Child; tests put a scripted one in its place."""

    pid: int

    def send(self, obj: Mapping[str, Any], *blobs: bytes) -> None: ...

    def recv(self, timeout_secs: float | None) -> Frame: ...

    def kill(self) -> None: ...

    def close(self) -> None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Suggested:
    """A child's answer for one round, or why there is none."""

    search_id: int
    round: int
    #: The newest round whose results it has seen.
    learnt_round: int = -1
    candidates: Sequence[Candidate] = ()
    exhausted: bool = False
    search_secs: float = 0.0
    #: Tasks that it was asked for.
    payers: frozenset[int] = frozenset()
    failure: SearchChildError | None = None


@dataclass(slots=True, kw_only=True)
class _Live:
    """A search with a turn. Its thread alone touches child and told."""

    child: SearchChild | None = None
    told: set[int] = field(default_factory=set)
    request: Future[Suggested] | None = None
    #: Tasks that the request was made for.
    payers: frozenset[int] = frozenset()
    rounds_asked: int = 0
    #: What its last round took to be searched.
    round_secs: float | None = None
    used_at: float = 0.0


class SearchHost:
    """Used by the loop's thread only."""

    def __init__(
        self,
        *,
        engine: Engine,
        spawn: Callable[[], SearchChild],
        settings: TunerSettings,
        on_answer: Callable[[], None] = lambda: None,
    ) -> None:
        """`on_answer` is called, by any thread, when there is an answer to take."""
        self._engine = engine
        self._on_answer = on_answer
        self._spawn = spawn
        self._settings = settings
        self._live: OrderedDict[int, _Live] = OrderedDict()
        self._threads = ThreadPoolExecutor(settings.max_children, thread_name_prefix="search")

    def busy(self, search_id: int) -> bool:
        live = self._live.get(search_id)
        return live is not None and live.request is not None

    def asked(self) -> list[int]:
        """Searches whose answer is waited for."""
        return [search_id for search_id, live in self._live.items() if live.request is not None]

    def round_secs(self, search_id: int) -> float:
        """What a round of a search took lately; a second where that is not known."""
        live = self._live.get(search_id)
        return _ROUND_SECS if live is None or live.round_secs is None else live.round_secs

    def ask(
        self, search: Search, *, round_: int, learnt_round: int, count: int, payers: Collection[int]
    ) -> bool:
        """Start a request for a round's candidates, which may know the results up to `learnt_round`.

        False where one is under way, or no turn is free.
        """
        live = self._turn(search.id)
        if live is None or live.request is not None:
            return False
        live.used_at = time.monotonic()
        live.rounds_asked += 1
        live.payers = frozenset(payers)
        live.request = self._threads.submit(self._suggest, live, search, round_, learnt_round, count)
        live.request.add_done_callback(lambda _: self._on_answer())
        return True

    def answers(self) -> list[Suggested]:
        """What came back since the last call; never waits."""
        done: list[Suggested] = []
        for live in self._live.values():
            if live.request is not None and live.request.done():
                done.append(replace(live.request.result(), payers=live.payers))
                live.request = None
                live.used_at = time.monotonic()
        for answer in done:
            if answer.failure is not None:
                self.close(answer.search_id)
        return done

    def close(self, search_id: int) -> None:
        """End a search's child, unless a request is under way: then its answer ends it."""
        live = self._live.get(search_id)
        if live is None or live.request is not None:
            return
        del self._live[search_id]
        if live.child is not None:
            live.child.close()

    def close_idle(self, needed: Collection[int]) -> None:
        """End children that no task needs, or that nobody asked for a while."""
        now = time.monotonic()
        for search_id, live in list(self._live.items()):
            if search_id not in needed or now - live.used_at > self._settings.child_idle_secs:
                self.close(search_id)

    def shut_down(self) -> None:
        """End all children; threads that still wait for one see it die."""
        self._threads.shutdown(wait=False, cancel_futures=True)
        while waiting := [live for live in self._live.values() if live.request and not live.request.done()]:
            # Again and again: a thread may just be making its child.
            for live in waiting:
                if live.child is not None:
                    live.child.kill()
            time.sleep(_SHUT_DOWN_POLL_SECS)
        for live in self._live.values():
            if live.child is not None:
                live.child.close()
        self._live.clear()

    def _turn(self, search_id: int) -> _Live | None:
        if search_id not in self._live:
            if len(self._live) >= self._settings.max_children and not self._evict():
                return None
            self._live[search_id] = _Live(used_at=time.monotonic())
        self._live.move_to_end(search_id)
        return self._live[search_id]

    def _evict(self) -> bool:
        """Close the least recently used child that has had its turn."""
        for search_id, live in self._live.items():
            waited = time.monotonic() - live.used_at > self._settings.tick_secs * 20
            if live.request is None and (live.rounds_asked >= _ROUNDS_PER_TURN or waited):
                self.close(search_id)
                return True
        return False

    def _suggest(self, live: _Live, search: Search, round_: int, learnt_round: int, count: int) -> Suggested:
        """In a thread: tell the child what the round may see, and ask."""
        began = time.monotonic()
        try:
            self._tell(live, search, up_to_round=learnt_round)
            answer = self._request(
                live, {"op": "suggest", "count": count, "round": round_}, self._settings.suggest_timeout_secs
            )
            live.round_secs = float(answer["stage_secs"]["search"])
            candidates = [_candidate(obj) for obj in answer["candidates"]]
            return Suggested(
                search_id=search.id,
                round=round_,
                learnt_round=learnt_round,
                candidates=candidates,
                exhausted=bool(answer["exhausted"]),
                search_secs=time.monotonic() - began,
            )
        except SearchChildError as error:
            return Suggested(search_id=search.id, round=round_, failure=error)
        except (ForkServerDied, SpawnRefused, SQLAlchemyError) as error:
            return Suggested(search_id=search.id, round=round_, failure=FarmError(str(error)))
        except Exception as error:  # noqa: BLE001 - the child-process boundary: its answer may be anything
            failure = SearchChildError(f"the search child failed in round {round_}: {_reason(error)}")
            return Suggested(search_id=search.id, round=round_, failure=failure)

    def _tell(self, live: _Live, search: Search, *, up_to_round: int) -> None:
        with reading(self._engine) as session:
            known = rounds.known_trials(session, search.id, up_to_round=up_to_round)
            unseen = rounds.unseen_programs(session, search.id, up_to_round=up_to_round)
            traces = rounds.traces(session, [trial.id for trial in self._best(known)])
        if live.child is not None and not live.told <= {trial.id for trial in known}:
            # A trial of an old round is open again: a child that knows more than the rows tell now is no
            # function of them.
            live.child.close()
            live.child, live.told = None, set()
        results = [_result(trial, traces.get(trial.id)) for trial in known if trial.id not in live.told]
        if live.child is None:
            live.child = self._spawn()
            _log.info("search_child_started", search_id=search.id, pid=live.child.pid)
            self._request(live, self._opening(search, results, unseen), self._settings.open_timeout_secs)
        elif results:
            self._request(live, {"op": "update", "results": results}, self._settings.suggest_timeout_secs)
        live.told = {trial.id for trial in known}

    def _best(self, known: Sequence[KnownTrial]) -> list[KnownTrial]:
        ok = [trial for trial in known if trial.outcome is Outcome.OK]
        return sorted(ok, key=lambda trial: (trial.latency_secs, trial.id))[: self._settings.known_traces]

    def _opening(self, search: Search, known: list[dict[str, Any]], pending: list[str]) -> dict[str, Any]:
        with reading(self._engine) as session:
            module_z = searches.read_module(session, search.workload_id).module_z
        return {
            "op": "open",
            "module": zlib.decompress(module_z).decode(),
            "target": dict(search.target),
            "space": None if search.space is None else dict(search.space),
            "strategy": search.strategy,
            "seed": search.seed,
            "options": {"batch_size": self._settings.batch_size} | dict(search.options),
            "known": known,
            "pending": pending,
        }

    def _request(self, live: _Live, request: Mapping[str, Any], timeout_secs: float) -> dict[str, Any]:
        assert live.child is not None
        live.child.send(request)
        answer, _ = live.child.recv(timeout_secs)
        if "error" in answer:
            error = answer["error"]
            raise SearchChildError(f"{request['op']}: {error['type']}: {error['message']}")
        return answer


def _reason(error: Exception) -> str:
    stderr = getattr(error, "stderr", "")
    text = f"{type(error).__name__}: {error}"
    return f"{text}; it wrote: {stderr[-500:]}" if stderr else text


def _candidate(obj: Mapping[str, Any]) -> Candidate:
    score = obj["predicted_score"]
    return Candidate(
        trace=_canonical(obj["trace"]),
        trace_hash=_hash(obj["trace_hash"]),
        program_hash=_hash(obj["program_hash"]),
        features=base64.b64decode(obj["features"]),
        predicted_score=None if score is None else float(score),
    )


def _hash(value: object) -> str:
    if not isinstance(value, str) or not _HASH.fullmatch(value):
        raise ValueError("a hash is hexadecimal digits")
    return value


def _canonical(trace: Any) -> str:
    return trace if isinstance(trace, str) else json.dumps(trace, sort_keys=True, separators=(",", ":"))


def _result(trial: KnownTrial, trace_z: bytes | None) -> dict[str, Any]:
    measured = trial.outcome in (Outcome.OK, Outcome.CUT_OFF)
    return {
        "trace_hash": trial.trace_hash,
        "program_hash": trial.program_hash,
        "features": base64.b64encode(trial.features_z).decode(),
        "round": trial.round,
        "latency_secs": trial.latency_secs if measured else None,
        "censored": trial.outcome is Outcome.CUT_OFF,
        "trace": None if trace_z is None else zlib.decompress(trace_z).decode(),
    }
