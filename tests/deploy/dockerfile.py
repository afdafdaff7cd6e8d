"""What the Dockerfile says of each target: command, environment, ports, user and health check."""

import json
import re
import shlex
from copy import deepcopy
from dataclasses import dataclass, field
from pathlib import Path

DOCKERFILE = Path(__file__).parents[2] / "Dockerfile"


@dataclass(kw_only=True)
class Image:
    command: list[str] = field(default_factory=list)
    environment: dict[str, str] = field(default_factory=dict)
    ports: tuple[int, ...] = ()
    health: list[str] = field(default_factory=list)
    user: str = "root"


def images() -> dict[str, Image]:
    """By target. Enough of the language for our own file; hadolint knows the rest."""
    text = re.sub(r"\\\n", " ", DOCKERFILE.read_text(encoding="utf-8"))
    found: dict[str, Image] = {}
    image, entry = Image(), []
    for line in text.splitlines():
        word, _, rest = line.partition(" ")
        match word:
            case "FROM":
                parent, _, name = rest.partition(" AS ")
                built_on = found.get(parent.strip(), Image())
                # Of a role's image it is that role's; what all are built on starts nothing.
                image, entry = (deepcopy(built_on) if built_on.command else Image()), []
                found[name.strip()] = image
            case "ENV":
                image.environment |= dict(pair.split("=", 1) for pair in shlex.split(rest))
            case "USER":
                image.user = rest.strip()
            case "EXPOSE":
                image.ports = tuple(int(port) for port in rest.split())
            case "HEALTHCHECK":
                image.health = json.loads(rest.partition("CMD ")[2])
            case "ENTRYPOINT":
                entry = json.loads(rest)
            case "CMD":
                image.command = [*entry, *json.loads(rest)]
    return found
