"""`python -m bench COMMAND`: every number that this project claims, measured on this machine."""

import argparse
import sys

from bench import (
    ablation,
    breakdown,
    consumed,
    device_path,
    draws,
    expected,
    farm_sim,
    importing,
    load,
    lookup,
    memory,
    million,
    models,
    pages,
    policy,
    ranking,
    rules,
    search,
    space,
    strategies,
    upgrade,
    versus,
)

_COMMANDS = {
    "stock": (versus, "the service against stock ms.tune_tir"),
    "strategies": (strategies, "evolution against random search at equal trials"),
    "search": (search, "what a search costs by itself, and what it finds"),
    "space": (space, "stock's design space against ours at equal trials"),
    "draws": (draws, "the same on shapes that are drawn at random"),
    "rules": (rules, "what each rule of our design space gives alone, and what it costs"),
    "ablation": (ablation, "what each part of the search is worth, played against recorded programs"),
    "ranking": (ranking, "how well the cost model ranks programs of which it saw few"),
    "policy": (policy, "rank agreement of the measure policy with a long careful reference"),
    "lookup": (lookup, "the compile-time database against stock JSONDatabase"),
    "import": (importing, "stock's files sent to the service, and the memory that it takes"),
    "expected": (expected, "what coverage expects of tuning, held to what tuning brought"),
    "memory": (memory, "the worker's memory over thousands of candidates"),
    "consumed": (consumed, "a dense layer's published time beside what compile_tir and compile_relax give"),
    "device": (device_path, "what a candidate costs on its way through a worker, beside LLVM alone"),
    "farm-sim": (farm_sim, "how many devices one control plane feeds, the devices simulated"),
    "load": (load, "the API under load on loopback, by wrk"),
    "models": (models, "latency of whole models before and after tuning"),
    "million": (million, "times of the queries on a database of 1,000,000 trials"),
    "upgrade": (upgrade, "seconds of each revision of the schema on a database of many trials"),
    "pages": (pages, "page weight and time to first content of the dashboard"),
    "profile": (breakdown, "where the seconds of a run go"),
}


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    for name, (module, words) in _COMMANDS.items():
        module.add_arguments(commands.add_parser(name, help=words, description=module.__doc__))
    arguments = parser.parse_args()
    module, _ = _COMMANDS[arguments.command]
    status: int = module.main(arguments)
    return status


if __name__ == "__main__":
    sys.exit(main())
