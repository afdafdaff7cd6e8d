"""The roles of a farm as plain processes, by their own commands: killed, stopped and started again."""

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

import psutil

from services.server.deathsig import DIE_WITH_PARENT

_SERVER = (sys.executable, "-m", "services.server.cli")
_END_SECS = 20.0


class Roles:
    """Processes by name. A name is a role's, or `role-something` for one more of it."""

    def __init__(self, home: Path, env: Mapping[str, str]) -> None:
        self._home = home
        self._env = {**os.environ, **env}
        self._processes: dict[str, subprocess.Popen[bytes]] = {}

    def start(
        self,
        name: str,
        *,
        before: Sequence[str] = (),
        words: Sequence[str] = (),
        without: Collection[str] = (),
        **env: str,
    ) -> None:
        """Start a process, with `before` before its command line and `words` behind it.

        `env` is added to its environment, `without` is left out of it.
        """
        command = [*DIE_WITH_PARENT, *before, *_SERVER, name.partition("-")[0], *words]
        given = {key: value for key, value in self._env.items() if key not in without}
        with self.log(name).open("ab") as log:
            self._processes[name] = subprocess.Popen(command, env={**given, **env}, stdout=log, stderr=log)

    def kill(self, name: str) -> None:
        self.signal(name, signal.SIGKILL)
        self._processes.pop(name).wait()

    def signal(self, name: str, signum: signal.Signals) -> None:
        self._processes[name].send_signal(signum)

    def end(self, name: str) -> None:
        """SIGTERM, and waited for."""
        process = self._processes.pop(name)
        process.terminate()
        process.wait(_END_SECS)

    def tree(self, name: str) -> list[psutil.Process]:
        """A process and all below it."""
        process = psutil.Process(self._processes[name].pid)
        return [process, *process.children(recursive=True)]

    def names(self) -> list[str]:
        return list(self._processes)

    def log(self, name: str) -> Path:
        return self._home / f"{name}.log"

    def command(self, *words: str) -> str:
        done = subprocess.run(
            [*DIE_WITH_PARENT, *_SERVER, *words], env=self._env, check=True, capture_output=True, text=True
        )
        return done.stdout

    def stop(self) -> None:
        """End all of them, whoever was stopped too; no child of theirs may be left."""
        children = [child for process in self._processes.values() for child in _children(process.pid)]
        for child in children:
            with contextlib.suppress(psutil.NoSuchProcess):
                child.resume()
        for process in reversed(self._processes.values()):
            process.send_signal(signal.SIGCONT)
            process.terminate()
        for process in self._processes.values():
            process.wait(_END_SECS)
        self._processes.clear()
        _gone, alive = psutil.wait_procs(children, timeout=5)
        assert not alive, f"orphans: {[p.cmdline() for p in alive]}"


def is_fork_server(process: psutil.Process) -> bool:
    """Whether it is a worker's, from whom candidates are forked; one that has ended is not."""
    with contextlib.suppress(psutil.NoSuchProcess):
        return "sandbox.server" in process.cmdline()
    return False


def _children(pid: int) -> list[psutil.Process]:
    with contextlib.suppress(psutil.NoSuchProcess):
        return psutil.Process(pid).children(recursive=True)
    return []
