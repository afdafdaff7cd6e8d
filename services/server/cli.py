"""`tilefarm-server`: one command for every role, for the database and for tokens. It only parses."""

import argparse
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

from pydantic import ValidationError
from pydantic_settings import BaseSettings

from sandbox.collector import resting_collector
from services import logs
from services.api.settings import DEFAULT_PORT

_S = TypeVar("_S", bound=BaseSettings)
_MAX_DAYS = 36_500
#: Whole trials that a search needs at least: as many may be contenders (services/tuning/settle.py).
_MIN_KEEP = 64
_MAX_KEEP = 100_000


def main(argv: Sequence[str] | None = None) -> int:
    arguments = _parser().parse_args(argv)
    code: int = arguments.run(arguments)
    return code


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="tilefarm-server",
        description="The tilefarm auto-tuning service. Roles read their settings from TILEFARM_* variables.",
    )
    commands = parser.add_subparsers(title="commands", required=True, metavar="COMMAND")
    _add_up(commands)
    for role, text in (("api", "REST, lookups, events"), ("tuner", "searches, dispatch, records")):
        command = commands.add_parser(role, help=f"run one process of the role: {text}")
        command.set_defaults(run=_RUN[role])
    _add_worker(commands)
    _add_selftest(commands)
    _add_db(commands)
    _add_token(commands)
    _add_key(commands)
    _add_owner(commands)
    return parser


def _add_up(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    up = commands.add_parser("up", help="run everything on this machine until Ctrl-C (embedded mode)")
    up.add_argument("--data-dir", type=Path, default=None, help="database, token and logs")
    up.add_argument("--host", default="127.0.0.1")
    up.add_argument("--port", type=int, default=DEFAULT_PORT, help="0 takes a free one")
    up.add_argument("--ready-json", action="store_true", help="print one JSON line when ready, for programs")
    up.set_defaults(run=_up)


def _add_worker(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    worker = commands.add_parser("worker", help="build and measure candidates on a device of this host")
    worker.add_argument("--join", metavar="URL", help="the service's URL (TILEFARM_URL)")
    worker.add_argument("--token", help="a token with the scope `worker` (TILEFARM_TOKEN)")
    worker.add_argument(
        "--role",
        choices=("both", "build", "measure"),
        help="build: make what others time; measure: time what others built (TILEFARM_WORKER_ROLE)",
    )
    worker.set_defaults(run=_worker)


def _add_selftest(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    selftest = commands.add_parser("selftest", help="what this host's device can do: peak, bandwidth, noise")
    selftest.set_defaults(run=_selftest)


def _add_db(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    database = commands.add_parser("db", help="the database's schema")
    verbs = database.add_subparsers(required=True, metavar="VERB")
    upgrade = verbs.add_parser("upgrade", help="bring TILEFARM_DATABASE_URL to this version's schema")
    upgrade.set_defaults(run=_db_upgrade)
    thin = verbs.add_parser("thin", help="drop old losing traces, and workers that left; counts stay")
    thin.add_argument("--days", type=_days, default=30.0, help="since the job or worker ended; default: 30")
    thin.add_argument("--keep", type=_keep, default=128, help="best trials of a search that stay whole")
    thin.set_defaults(run=_db_thin)


def _add_token(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    token = commands.add_parser("token", help="bearer tokens")
    verbs = token.add_subparsers(required=True, metavar="VERB")
    create = verbs.add_parser("create", help="make a token and print it once")
    create.add_argument("name")
    create.add_argument("--scope", action="append", required=True, dest="scopes", help="may be given often")
    create.add_argument("--days", type=float, default=None, help="expires after so many days; default: never")
    create.set_defaults(run=_token_create)
    adopt = verbs.add_parser("adopt", help="make a secret that you have in a file a token; may be repeated")
    adopt.add_argument("name")
    adopt.add_argument("--scope", action="append", required=True, dest="scopes", help="may be given often")
    adopt.add_argument("--file", type=Path, required=True)
    adopt.set_defaults(run=_token_adopt)
    listing = verbs.add_parser("list", help="names, scopes, expiry; never the tokens")
    listing.set_defaults(run=_token_list)
    revoke = verbs.add_parser("revoke", help="make a token useless")
    revoke.add_argument("name")
    revoke.set_defaults(run=_token_revoke)


def _add_key(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    key = commands.add_parser("key", help="the Ed25519 key that signs published records")
    verbs = key.add_subparsers(required=True, metavar="VERB")
    for verb, run, text in (
        ("create", _key_create, "make a key in FILE (mode 0600); prints its public half"),
        ("show", _key_show, "print the public half of the key in FILE"),
    ):
        command = verbs.add_parser(verb, help=text)
        command.add_argument("file", type=Path, metavar="FILE")
        command.set_defaults(run=run)
    listing = verbs.add_parser("list", help="public keys that this farm signed with, and how many records")
    listing.set_defaults(run=_key_list)
    sign = verbs.add_parser("sign", help="after a change of key: sign the published records anew")
    sign.add_argument("file", type=Path, metavar="FILE", help="the new key")
    sign.add_argument("--unsigned", action="store_true", help="also those that nobody signed")
    sign.set_defaults(run=_key_sign)


def _add_owner(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    owner = commands.add_parser("owner", help="shares of the devices among owners of jobs")
    verbs = owner.add_subparsers(required=True, metavar="VERB")
    weight = verbs.add_parser("weight", help="give an owner a share of the devices other than everybody's")
    weight.add_argument("name", help="of the token that submits")
    weight.add_argument("weight", type=float, help="1 is everybody's, 2 is twice that")
    weight.set_defaults(run=_owner_weight)
    listing = verbs.add_parser("list", help="owners whose weight is not 1")
    listing.set_defaults(run=_owner_list)


def _up(arguments: argparse.Namespace) -> int:
    with resting_collector():
        from services.server import embedded, settings, supervisor
        from services.server.home import EmbeddedError, Home

    read = _read(settings.ServerSettings)
    home = Home(path=(arguments.data_dir or read.embedded_dir()).resolve())
    try:
        return embedded.run(
            home, read, host=arguments.host, port=arguments.port, ready_json=arguments.ready_json
        )
    except (EmbeddedError, supervisor.PartFailedError) as error:
        print(f"tilefarm-server up: {error}", file=sys.stderr)
        return 1


def _api(_arguments: argparse.Namespace) -> int:
    logs.configure()
    with resting_collector():
        import uvicorn

        from services.api.app import create_app
        from services.api.settings import ApiSettings

    settings = _read(ApiSettings)
    uvicorn.run(
        create_app(settings),
        host=settings.host,
        port=settings.port,
        log_config=None,
        access_log=False,
        # A proxy says whether TLS ends at it; nothing but cookies and links depends on that.
        forwarded_allow_ips="*",
        timeout_graceful_shutdown=3,
    )
    return 0


def _tuner(_arguments: argparse.Namespace) -> int:
    logs.configure()
    with resting_collector():
        from sandbox.errors import SandboxError
        from services.tuning.main import run
        from services.tuning.settings import TunerSettings

    try:
        run(_read(TunerSettings))
    except SandboxError as error:
        print(f"tilefarm-server tuner: {error}", file=sys.stderr)
        return 1
    return 0


def _worker(arguments: argparse.Namespace) -> int:
    logs.configure()
    with resting_collector():
        from sandbox.errors import SandboxError
        from workers.errors import WorkerError
        from workers.main import run
        from workers.settings import WorkerSettings

    given = {"url": arguments.join, "token": arguments.token, "worker_role": arguments.role}
    try:
        run(_read(WorkerSettings, **{name: value for name, value in given.items() if value}))
    except (WorkerError, SandboxError) as error:
        print(f"tilefarm-server worker: {error}", file=sys.stderr)
        return 1
    return 0


def _selftest(_arguments: argparse.Namespace) -> int:
    from sandbox.errors import SandboxError
    from services.server.selftest import run
    from workers.errors import WorkerError
    from workers.settings import WorkerSettings

    try:
        return run(_read(WorkerSettings))
    except (WorkerError, SandboxError) as error:
        print(f"tilefarm-server selftest: {error}", file=sys.stderr)
        return 1


def _db_upgrade(_arguments: argparse.Namespace) -> int:
    from db.migrate import upgrade

    def run(url: str) -> int:
        newer = "the database is of a newer release, which this one can work with: nothing to do"
        print("the database is up to date" if upgrade(url) else newer)
        return 0

    return _on_database(run)


def _db_thin(arguments: argparse.Namespace) -> int:
    from services.server import retention

    return _on_database(lambda url: retention.thin_all(url, days=arguments.days, keep=arguments.keep))


def _days(text: str) -> float:
    days = float(text)
    if not 0 <= days <= _MAX_DAYS:
        raise argparse.ArgumentTypeError(f"0 to {_MAX_DAYS} days")
    return days


def _keep(text: str) -> int:
    keep = int(text)
    if not _MIN_KEEP <= keep <= _MAX_KEEP:
        raise argparse.ArgumentTypeError(f"{_MIN_KEEP} to {_MAX_KEEP}: a search goes on from them")
    return keep


def _token_create(arguments: argparse.Namespace) -> int:
    from services.server import tokens

    return _on_database(
        lambda url: tokens.create(url, name=arguments.name, scopes=arguments.scopes, days=arguments.days)
    )


def _token_adopt(arguments: argparse.Namespace) -> int:
    from services.server import tokens

    return _on_database(
        lambda url: tokens.adopt(url, name=arguments.name, scopes=arguments.scopes, path=arguments.file)
    )


def _token_list(_arguments: argparse.Namespace) -> int:
    from services.server import tokens

    return _on_database(tokens.list_all)


def _token_revoke(arguments: argparse.Namespace) -> int:
    from services.server import tokens

    return _on_database(lambda url: tokens.revoke(url, name=arguments.name))


def _key_create(arguments: argparse.Namespace) -> int:
    from services.server import keys

    return keys.create(arguments.file)


def _key_show(arguments: argparse.Namespace) -> int:
    from services.server import keys

    return keys.show(arguments.file)


def _key_list(_arguments: argparse.Namespace) -> int:
    from services.server import keys

    return _on_database(keys.list_all)


def _key_sign(arguments: argparse.Namespace) -> int:
    from services.server import keys

    return _on_database(lambda url: keys.sign_all(url, arguments.file, unsigned_too=arguments.unsigned))


def _owner_weight(arguments: argparse.Namespace) -> int:
    from services.server import owners

    return _on_database(lambda url: owners.weigh(url, name=arguments.name, weight=arguments.weight))


def _owner_list(_arguments: argparse.Namespace) -> int:
    from services.server import owners

    return _on_database(owners.list_all)


def _on_database(run: Callable[[str], int]) -> int:
    """What `run` makes of the database; one that is not there, or lacks the tables, is told in a line."""
    from sqlalchemy.exc import ArgumentError, DBAPIError

    from services.server.settings import ServerSettings

    try:
        return run(_read(ServerSettings).require_database_url())
    except (ArgumentError, DBAPIError) as error:
        reason = error.orig if isinstance(error, DBAPIError) else error
        print(
            f"tilefarm-server: TILEFARM_DATABASE_URL, or the embedded service's database: {reason}",
            file=sys.stderr,
        )
        return 1


def _read(settings: Callable[..., _S], **given: object) -> _S:
    """A role's settings; what does not read is named, and ends the command with code 2."""
    try:
        return settings(**given)
    except ValidationError as error:
        for fault in error.errors():
            name = "_".join(str(part) for part in fault["loc"]).upper()
            # A fault of a file names its variable itself.
            told = fault["msg"].removeprefix("Value error, ")
            said = f"TILEFARM_{name}: {told}" if name else told
            print(f"tilefarm-server: {said}", file=sys.stderr)
        raise SystemExit(2) from None


_RUN = {"api": _api, "tuner": _tuner}

if __name__ == "__main__":
    sys.exit(main())
