"""An image without a container: a Python that sees only what a role requires, and our own packages."""

import os
import re
import shutil
import subprocess
import sys
import venv
from importlib.metadata import Distribution, distribution
from pathlib import Path

from packaging.requirements import Requirement

ROOT = Path(__file__).parents[2]
REQUIREMENTS = ROOT / "deploy" / "requirements"
OWN = ("services", "workers", "tuner", "sandbox", "checks", "db")


def named(role: str) -> list[Requirement]:
    """What the role's file names."""
    lines = (REQUIREMENTS / f"{role}.txt").read_text(encoding="utf-8").splitlines()
    return [Requirement(line) for line in lines if line and not line.startswith("#")]


def closure(requirements: list[Requirement]) -> dict[str, Distribution]:
    """Normalised name → distribution, with all that they depend on."""
    found: dict[str, Distribution] = {}
    extras_of: dict[str, set[str]] = {}
    waiting = list(requirements)
    while waiting:
        wanted = waiting.pop()
        name = normal(wanted.name)
        extras = extras_of.setdefault(name, set())
        if name in found and wanted.extras <= extras:
            continue
        extras |= wanted.extras
        found[name] = distribution(wanted.name)
        for text in found[name].requires or ():
            needed = Requirement(text)
            environments = [{"extra": extra} for extra in ("", *extras)]
            if needed.marker is None or any(needed.marker.evaluate(env) for env in environments):
                waiting.append(needed)
    return found


def normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def size_bytes(distributions: dict[str, Distribution]) -> int:
    """Of all their files on disk."""
    paths = [Path(str(file.locate())) for each in distributions.values() for file in each.files or ()]
    return sum(path.stat().st_size for path in paths if path.is_file())


class RoleEnvironment:
    """A virtual environment of links; the fork server's processes start from its Python too."""

    def __init__(self, home: Path, role: str) -> None:
        venv.EnvBuilder(symlinks=True).create(home)
        version = f"python{sys.version_info.major}.{sys.version_info.minor}"
        site = home / "lib" / version / "site-packages"
        for each in closure(named(role)).values():
            _link(each, site)
        for package in OWN:
            (site / package).symlink_to(ROOT / package)
        # Its name and version, which the API tells.
        own = distribution("tilefarm-server")
        info = site / "tilefarm_server-0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(
            f"Metadata-Version: 2.1\nName: tilefarm-server\nVersion: {own.version}\n"
        )
        self.python = home / "bin" / "python"
        self._script = self._console_script(home)

    def command(self, words: list[str]) -> list[str]:
        """An image's command line, with its Python and its `tilefarm-server`."""
        program = {"tilefarm-server": [str(self._script)], "python": [str(self.python)]}[words[0]]
        return [*program, *words[1:]]

    def imports(self, module: str) -> bool:
        tried = subprocess.run([self.python, "-c", f"import {module}"], capture_output=True, check=False)
        return tried.returncode == 0

    def _console_script(self, home: Path) -> Path:
        script = home / "bin" / "tilefarm-server"
        script.write_text(
            f"#!{self.python}\nimport sys\nfrom services.server.cli import main\nsys.exit(main())\n"
        )
        script.chmod(0o755)
        return script


def environment(**variables: str) -> dict[str, str]:
    """What a container's process sees, and nothing of this shell's."""
    return {"PATH": os.defpath, "LANG": "C.UTF-8", **variables}


def _link(each: Distribution, site: Path) -> None:
    """Link the top-level entries of a distribution; namespace packages are merged."""
    for file in each.files or ():
        top = file.parts[0]
        if top in ("..", "__pycache__") or top.endswith(".pth"):
            continue
        real = Path(str(each.locate_file(top)))
        target = site / top
        if not target.exists() and real.exists():
            target.symlink_to(real)


def clean(path: Path) -> None:
    shutil.rmtree(path, ignore_errors=True)
