"""Stock `ms.tune_tir`'s arguments, judged: what the service does too, and what cannot travel to it.

A refusal names its argument. Nothing is sent from here.
"""

from collections.abc import Mapping
from typing import Any

from tilefarm.errors import CannotTravelError

#: What stock takes there by default, or what means the same on the service.
_ACCEPTED: dict[str, tuple[Any, ...]] = {
    "builder": ("local",),
    "runner": ("local",),
    "database": ("json", "memory"),
    "cost_model": ("xgb",),
    "measure_callbacks": ("default",),
    "task_scheduler": ("gradient",),
    "module_equality": ("structural",),
    "post_optimization": (False, None),
}
_WHY = {
    "builder": "candidates are built by the farm's workers",
    "runner": "candidates are measured by the farm's workers",
    "database": "records are kept by the service, and the returned Database reads them",
    "cost_model": "the service trains its own xgb model",
    "measure_callbacks": "a callback would have to run where candidates are measured",
    "task_scheduler": "the service moves budget to the task with the largest expected gain (gradient)",
    "module_equality": "the service keys workloads by structural equality",
    "post_optimization": "droplet search does not run on the service",
}
#: Stock's names of the strategies that the service has.
_STRATEGIES = {"evolutionary": "evolutionary", "replay-trace": "random", "random": "random"}
DEFAULT_BATCH_SIZE = 64


def refuse_what_cannot_travel(arguments: Mapping[str, Any]) -> None:
    """CannotTravelError for the first argument that means something only in this process."""
    for name, value in arguments.items():
        plain = value is None or isinstance(value, str | bool)
        if not plain or value not in _ACCEPTED[name]:
            accepted = " or ".join(repr(item) for item in _ACCEPTED[name])
            raise CannotTravelError(
                name, f"{value!r:.80} cannot travel: {_WHY[name]}; leave it at {accepted}"
            )


def strategy_name(strategy: Any) -> str:
    """The service's name of a stock strategy."""
    if isinstance(strategy, str) and strategy in _STRATEGIES:
        return _STRATEGIES[strategy]
    if strategy == "replay-func":
        raise CannotTravelError(
            "strategy", "'replay-func' calls the schedule function for every trial and cannot travel"
        )
    accepted = " or ".join(repr(name) for name in _STRATEGIES)
    raise CannotTravelError("strategy", f"{strategy!r:.80} cannot travel; name {accepted}")
