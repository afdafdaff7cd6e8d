"""A builder and a device apart: kernels and references travel by content, and what is lost is built again."""

import dataclasses
import hashlib
import time
import zlib
from pathlib import Path
from typing import Any

import httpx
import pytest

from db.states import Outcome, Purpose
from sandbox.fork_server import ForkServer
from tests.workers.conftest import EMPTY_TRACE, Bench
from workers.artifact_client import ArtifactClient
from workers.artifacts import ArtifactStore
from workers.build import Builder
from workers.device import detect_target
from workers.errors import DeviceError, JoinRefused
from workers.fetched import FetchedKernels, FetchedReferences
from workers.holding import Attempt
from workers.messages import MeasureChunk, TrialBuilt, TrialStarted, TrialUnbuilt, result_from_json
from workers.reference import ReferenceCache


class Api:
    """What the API keeps of artifacts, without a database."""

    def __init__(self, *, max_bytes: int = 1 << 26) -> None:
        self.kept: dict[str, bytes] = {}
        self.away = 0
        self.refuses = False
        self.max_bytes = max_bytes

    def __call__(self, request: httpx.Request) -> httpx.Response:
        if self.away:
            self.away -= 1
            return httpx.Response(503)
        if self.refuses:
            return httpx.Response(401, text="the token has expired")
        name = request.url.path.removeprefix("/v1/artifacts/").removesuffix(":touch")
        if request.method == "PUT":
            data = zlib.decompress(request.content)
            assert hashlib.sha256(data).hexdigest() == name
            if len(data) > self.max_bytes:
                return httpx.Response(413, text="too large")
            self.kept[name] = request.content
            return httpx.Response(204)
        if name not in self.kept:
            return httpx.Response(404)
        return httpx.Response(200, content=self.kept[name])

    def client(self) -> ArtifactClient:
        transport = httpx.MockTransport(self)
        return ArtifactClient(url="http://api", token="t", max_bytes=self.max_bytes, transport=transport)


@pytest.fixture
def api() -> Api:
    return Api()


def build(
    bench: Bench,
    api: Api,
    chunk: MeasureChunk,
    *,
    client: ArtifactClient | None = None,
    own_target: dict[str, Any] | None = None,
) -> list[Any]:
    """What a builder tells of a chunk, as it arrives."""
    told: list[Any] = []
    assert bench.linker is not None
    builder = Builder(
        server=bench.server,
        cpus=bench.device.cpus,
        own_target=own_target or bench.detected.target,
        references=_references(bench, "builder"),
        artifacts=ArtifactStore(directory=bench.directory / "builder" / "artifacts"),
        client=client or api.client(),
        holding=bench.holding,
        linker=bench.linker,
        tvm_version=bench.detected.tvm_version,
        device_class="builder",
        worker_id=lambda: "b1",
        publish=lambda obj: told.append(result_from_json(obj.as_json())),
    )
    builder.run(chunk)
    kept = [each for each in told if not isinstance(each, TrialStarted)]
    return sorted(kept, key=lambda each: each.trial_id)


def measure(bench: Bench, api: Api, chunk: MeasureChunk) -> list[Any]:
    """What a device that builds nothing tells of it."""
    told: list[Any] = []
    measurer = bench.measurer()
    kernels = ArtifactStore(directory=bench.directory / "device" / "fetched")
    measurer.artifacts = FetchedKernels(client=api.client(), store=kernels)
    measurer.references = FetchedReferences(
        server=bench.server, cache=_references(bench, "device"), client=api.client()
    )
    measurer.linker = "/no/linker/here"
    measurer.publish = told.append
    measurer.run(chunk)
    return told


def built_orders(chunk: MeasureChunk, told: list[Any]) -> MeasureChunk:
    """The chunk that the tuner service sends to a device."""
    built = {each.trial_id: each.built for each in told if isinstance(each, TrialBuilt)}
    orders = [
        dataclasses.replace(order, built=built[order.trial_id])
        for order in chunk.trials
        if order.trial_id in built
    ]
    sent = dataclasses.replace(chunk, trials=tuple(orders))
    return MeasureChunk.from_json(sent.as_json())


def _references(bench: Bench, host: str) -> ReferenceCache:
    return ReferenceCache(
        server=bench.server,
        directory=bench.directory / host / "references",
        linker=bench.linker,
        timeout_secs=20.0,
        max_bytes=1 << 28,
    )


def outcomes(told: list[Any]) -> dict[int, Outcome]:
    return {each.trial_id: each.outcome for each in told if hasattr(each, "outcome")}


def test_what_is_built_on_one_host_is_checked_and_timed_on_another(
    bench: Bench, api: Api, authored: dict[str, Any]
) -> None:
    chunk = bench.chunk(
        authored["mm"], authored["mm_tiled"], authored["mm_wrong"], authored["dense_traces"][0]
    )
    api.away = 1
    told = build(bench, api, chunk)
    assert outcomes(told) == {2: Outcome.REJECTED}
    names = {each.trial_id: each.built for each in told if isinstance(each, TrialBuilt)}
    assert names.keys() == {0, 1}
    assert names[0].reference == names[1].reference
    assert len(api.kept) == 3
    timed = measure(bench, api, built_orders(chunk, told))
    assert outcomes(timed) == {0: Outcome.OK, 1: Outcome.WRONG_OUTPUT}
    (ok,) = [each for each in timed if getattr(each, "outcome", None) == Outcome.OK]
    assert "replay" not in ok.stage_secs
    assert ok.run_secs


def test_a_confirmation_travels_with_its_incumbent(bench: Bench, api: Api, authored: dict[str, Any]) -> None:
    chunk = bench.chunk(
        authored["mm"], authored["mm_tiled"], purpose=Purpose.CONFIRM, incumbent=authored["mm_slow"]
    )
    told = build(bench, api, chunk)
    (built,) = [each.built for each in told if isinstance(each, TrialBuilt)]
    assert built.incumbent not in (None, built.kernel)
    (outcome,) = [each for each in measure(bench, api, built_orders(chunk, told)) if hasattr(each, "outcome")]
    assert (outcome.outcome, len(outcome.run_secs)) == (Outcome.OK, 3)
    assert min(outcome.incumbent_run_secs) > min(outcome.run_secs)


@pytest.mark.parametrize("what", ["kernel", "reference"])
@pytest.mark.parametrize("how", ["gone", "other bytes"])
def test_an_artifact_that_is_lost_is_asked_for_again_and_harms_no_candidate(
    bench: Bench, api: Api, authored: dict[str, Any], what: str, how: str
) -> None:
    chunk, builder = bench.chunk(authored["mm"], authored["mm_tiled"]), api.client()
    sent = built_orders(chunk, build(bench, api, chunk, client=builder))
    (order,) = sent.trials
    name = getattr(order.built, what)
    if how == "gone":
        del api.kept[name]
    else:
        api.kept[name] = zlib.compress(b"\x7fELF and more")
    (told,) = measure(bench, api, sent)
    assert isinstance(told, TrialUnbuilt)
    assert (told.trial_id, told.attempt) == (0, 1)
    assert name in told.reason
    api.kept.pop(name, None)
    second = dataclasses.replace(chunk, trials=(dataclasses.replace(chunk.trials[0], attempt=2),))
    again = built_orders(second, build(bench, api, second, client=builder))
    assert outcomes(measure(bench, api, again)) == {0: Outcome.OK}


def test_a_reference_that_is_too_large_to_travel_fails_the_search_with_the_reason(
    bench: Bench, authored: dict[str, Any]
) -> None:
    chunk = bench.chunk(authored["scale"], "[[],[]]", purpose=Purpose.BASELINE)
    (told,) = build(bench, Api(max_bytes=100), chunk)
    assert told.outcome == Outcome.REJECTED
    assert told.error.startswith("reference: it cannot travel to the device: the API does not take")


def test_a_builder_whose_token_has_expired_blames_no_candidate(
    bench: Bench, api: Api, authored: dict[str, Any]
) -> None:
    chunk = bench.chunk(authored["mm"], authored["mm_tiled"])
    client = api.client()
    build(bench, api, chunk, client=client)
    api.refuses = True
    api.kept.clear()
    other = bench.chunk(authored["mm"], EMPTY_TRACE)
    with pytest.raises(JoinRefused, match="the token has expired"):
        build(bench, api, other, client=client)
    with pytest.raises(JoinRefused, match="the token has expired"):
        api.client().send(b"kernel", unwanted=lambda: False)
    with pytest.raises(JoinRefused, match="the token has expired"):
        api.client().fetch("0" * 64, unwanted=lambda: False)


def test_a_device_that_has_tvms_runtime_alone_times_as_well(
    bench: Bench, api: Api, authored: dict[str, Any], tmp_path: Path
) -> None:
    chunk = bench.chunk(authored["mm"], authored["mm_tiled"], authored["mm_slow"], flush_cache=True)
    sent = built_orders(chunk, build(bench, api, chunk))
    env = {"TVM_USE_RUNTIME_LIB": "1"}
    with ForkServer(["workers.preload"], work_dir=tmp_path, env=env) as runtime:
        with pytest.raises(DeviceError, match="TILEFARM_WORKER_TARGET names one"):
            detect_target(runtime, num_cores=2)
        detected = detect_target(runtime, num_cores=2, target=chunk.target)
        assert (detected.own_target, detected.target) == (None, chunk.target)
        assert detected.tvm_version == bench.detected.tvm_version
        bench.server = runtime
        assert outcomes(measure(bench, api, sent)) == {0: Outcome.OK, 1: Outcome.OK}


def test_a_mislabelled_target_is_refused_with_the_reason(bench: Bench) -> None:
    foreign = {"kind": "llvm", "mcpu": "cortex-a72", "mtriple": "aarch64-linux-gnu", "num-cores": 4}
    with pytest.raises(DeviceError, match="the target is for aarch64, this host is x86_64"):
        detect_target(bench.server, num_cores=2, target=foreign)
    assert detect_target(bench.server, num_cores=2, target=foreign, times=False).target == foreign
    older = {"kind": "llvm", "mcpu": "x86-64-v2", "num-cores": 1}
    assert detect_target(bench.server, num_cores=2, target=older).target == older
    with pytest.raises(DeviceError, match="knows no CPU 'znver99'"):
        detect_target(bench.server, num_cores=2, target={**older, "mcpu": "znver99"})


def test_a_dropped_trial_is_neither_built_nor_waited_for(
    bench: Bench, api: Api, authored: dict[str, Any]
) -> None:
    api.away = 10**9
    chunk = bench.chunk(authored["mm"], authored["mm_tiled"])
    bench.holding.drop_all()
    assert build(bench, api, chunk) == []
    assert api.kept == {}
    assert bench.holding.held() == []
    assert bench.holding.dropped(Attempt(0, 1))


def test_a_builder_too_tries_an_endless_build_again_after_the_others(
    bench: Bench, api: Api, authored: dict[str, Any]
) -> None:
    """Nothing is known of the search: the first try is short, and the second has what the others allow."""
    chunk = bench.chunk(
        authored["mm"],
        authored["mm_unrolled"],
        authored["mm_tiled"],
        build_timeout_secs=2.0,  # in three a fast host meets the limit of memory first
        slow_build_secs=0.5,
    )
    began = time.monotonic()
    told = build(bench, api, chunk)
    assert outcomes(told) == {0: Outcome.BUILD_TIMEOUT}
    assert {each.trial_id for each in told if isinstance(each, TrialBuilt)} == {1}
    (endless,) = [each for each in told if not isinstance(each, TrialBuilt)]
    assert "more than 2 s" in endless.error
    assert 2.4 < time.monotonic() - began < 15.0
    assert bench.holding.held() == []


def test_a_reference_comes_out_as_it_went_in(bench: Bench, api: Api, authored: dict[str, Any]) -> None:
    """Inputs that had to be positive, too."""
    for module in ("log", "in_place", "gather", "bfloat"):
        chunk = bench.chunk(authored[module], "[[],[]]")
        measure(bench, api, built_orders(chunk, build(bench, api, chunk)))
        here, there = (_references(bench, host).place(chunk) for host in ("builder", "device"))
        assert _files(here) == _files(there)


def _files(directory: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in directory.iterdir()}
