"""A worker's own Prometheus metrics: what its process knows. The API's /metrics has the farm's view."""

from collections.abc import Callable, Iterable, Mapping, Sized

from prometheus_client import CollectorRegistry, Metric
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.registry import Collector


class WorkerMetrics(Collector):
    """Read when asked, from the objects that keep them anyway."""

    def __init__(
        self,
        *,
        stage_secs: Callable[[], Mapping[str, float]],
        held: Callable[[], Sized],
        quarantined: Callable[[], bool],
    ) -> None:
        self._stage_secs = stage_secs
        self._held = held
        self._quarantined = quarantined

    def collect(self) -> Iterable[Metric]:
        stages = CounterMetricFamily(
            "tilefarm_worker_stage_seconds", "Seconds spent, by stage of a trial", labels=["stage"]
        )
        for stage, secs in sorted(self._stage_secs().items()):
            stages.add_metric([stage], secs)
        yield stages
        yield GaugeMetricFamily(
            "tilefarm_worker_attempts_held", "Attempts that this worker works on", value=len(self._held())
        )
        yield GaugeMetricFamily(
            "tilefarm_worker_quarantined",
            "1 while the device takes nothing because it has become slow",
            value=int(self._quarantined()),
        )


def registry(metrics: WorkerMetrics) -> CollectorRegistry:
    made = CollectorRegistry()
    made.register(metrics)
    return made
