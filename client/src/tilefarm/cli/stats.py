"""`tilefarm stats`: what the compiles of this user got from tilefarm, and what is kept on this host.

It reads what processes left at their end; it asks no service.
"""

import argparse
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

from tilefarm import cache, summary
from tilefarm.cli import output
from tilefarm.cli.exits import Exit
from tilefarm.settings import Settings
from tilefarm.stats import Stats


def add(commands: Any, shared: argparse.ArgumentParser) -> None:
    command = commands.add_parser(
        "stats", parents=[shared], help="hits, misses, errors and seconds of this user's compiles"
    )
    command.add_argument("--days", type=float, default=7.0, help="look back so far (default: 7)")
    command.add_argument("--cache-dir", type=Path, help="default: TILEFARM_CACHE_DIR")
    command.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> Exit:
    cache_dir = Settings.load(cache_dir=arguments.cache_dir).cache_dir
    since = time.time() - arguments.days * 86_400
    found = [entry for entry in summary.entries(cache_dir) if entry.at >= since]
    urls = list(dict.fromkeys(entry.url for entry in found))
    services = [_service(url, [entry.stats for entry in found if entry.url == url]) for url in urls]
    answers, size_bytes = cache.usage(cache_dir)
    if arguments.output == "json":
        kept = {"directory": str(cache_dir), "answers": answers, "size_bytes": size_bytes}
        output.print_json({"services": services, "cache": kept})
        return Exit.OK
    header = ("service", "processes", "hits", "misses", "errors", "hit rate", "seconds")
    output.print_table(
        header,
        [
            (
                *(one[name] for name in ("url", "processes", "hits", "misses", "errors")),
                None if one["hit_rate"] is None else f"{one['hit_rate']:.0%}",
                f"{one['total_secs']:.3f}",
            )
            for one in services
        ],
    )
    print(f"cache: {answers} answers, {size_bytes / 1e6:.1f} MB in {cache_dir}")
    return Exit.OK


def _service(url: str, each: list[Stats]) -> dict[str, Any]:
    total = sum(each, start=Stats())
    asked = total.hits + total.misses + total.errors
    return {
        "url": url,
        "processes": len(each),
        **asdict(total),
        "hit_rate": total.hits / asked if asked else None,
    }
