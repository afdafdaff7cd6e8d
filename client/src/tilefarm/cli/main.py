"""`tilefarm`: parses the command line, runs one command, and turns errors into exit codes."""

import argparse
import functools
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from tilefarm.cli import (
    coverage,
    doctor,
    export,
    importing,
    jobs,
    lock,
    lookup,
    output,
    stats,
    submit,
    verifying,
)
from tilefarm.cli.exits import HELP, Exit
from tilefarm.cli.sources import SourceError
from tilefarm.client import Client
from tilefarm.errors import (
    AuthError,
    BadAnswerError,
    CannotTravelError,
    ConnectError,
    DeadlineError,
    ExportError,
    ImportFilesError,
    JobFailedError,
    ModuleError,
    NotConfiguredError,
    ProblemError,
    TargetError,
    TilefarmError,
)
from tilefarm.version import VERSION

if TYPE_CHECKING:
    import httpx

_EXITS: tuple[tuple[type[Exception] | tuple[type[Exception], ...], Exit], ...] = (
    ((ConnectError, DeadlineError), Exit.UNREACHABLE),
    ((ProblemError, AuthError), Exit.REFUSED),
    ((ExportError, ImportFilesError), Exit.USAGE),
    (BadAnswerError, Exit.BAD_ANSWER),
    (JobFailedError, Exit.FAILED),
    ((NotConfiguredError, SourceError, ModuleError, TargetError, CannotTravelError), Exit.USAGE),
)


def main(argv: Sequence[str] | None = None, *, transport: "httpx.BaseTransport | None" = None) -> int:
    arguments = _parser().parse_args(argv)
    arguments.connect = functools.partial(
        Client, arguments.url, arguments.token, timeout_secs=arguments.timeout_secs, transport=transport
    )
    try:
        code: Exit = arguments.run(arguments)
    except (TilefarmError, SourceError) as error:
        output.say(f"tilefarm: {error}")
        return next((code for kinds, code in _EXITS if isinstance(error, kinds)), Exit.FAILED)
    except KeyboardInterrupt:
        return Exit.INTERRUPTED
    except BrokenPipeError:  # `tilefarm list | head`
        sys.stderr.close()
        return Exit.OK
    return code


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="tilefarm",
        description="Submit tensor programs to a tilefarm service, follow their tuning, look records up.",
        epilog=HELP,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"tilefarm {VERSION}")
    connection = argparse.ArgumentParser(add_help=False)
    connection.add_argument("--url", help="the service (default: TILEFARM_URL, or the one on this machine)")
    connection.add_argument("--token", help="default: TILEFARM_TOKEN, or that of the service on this machine")
    connection.add_argument(
        "--timeout-secs", type=float, help="of one request (default: TILEFARM_TIMEOUT_SECS or 10)"
    )
    shared = argparse.ArgumentParser(add_help=False, parents=[connection])
    shared.add_argument("-o", "--output", choices=["text", "json"], default="text")
    commands = parser.add_subparsers(title="commands", required=True, metavar="COMMAND")
    for group in (submit, jobs, lookup, coverage, export, importing, verifying, stats, doctor):
        group.add(commands, shared)
    lock.add(commands, connection)
    return parser
