"""Logs are put aside by size: no line is lost or torn by that, and the number of files is bounded."""

import errno
import json
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from services.server.rotating import RotatingLog

_WRITER = """
import json, os, sys
for number in range(int(sys.argv[2])):
    line = {"writer": sys.argv[1], "number": number, "text": "x" * (number % 300)}
    os.write(1, (json.dumps(line) + "\\n").encode())
"""


def files(log: RotatingLog) -> list[Path]:
    """Oldest first."""
    return sorted(log.path.parent.glob("*.log*"), key=lambda path: (path.suffix == ".log", -_number(path)))


def _number(path: Path) -> int:
    return int(path.suffix[1:]) if path.suffix != ".log" else 0


def lines(log: RotatingLog) -> list[str]:
    return [line for path in files(log) for line in path.read_text().splitlines()]


def write(log: RotatingLog, data: bytes) -> None:
    """As one writer."""
    sink = log.pipe()
    os.write(sink, data)
    os.close(sink)
    log.drain()


def test_no_line_of_two_processes_is_lost_or_torn_while_files_are_put_aside(tmp_path: Path) -> None:
    log = RotatingLog(tmp_path / "part.log", max_bytes=10_000, max_files=200)
    writers = []
    for name in "ab":
        sink = log.pipe()
        writers.append(subprocess.Popen([sys.executable, "-c", _WRITER, name, "2000"], stdout=sink))
        os.close(sink)
    assert [writer.wait(60) for writer in writers] == [0, 0]
    log.drain()
    assert len(files(log)) > 40
    assert max(path.stat().st_size for path in files(log)) <= 10_000
    found = [json.loads(line) for line in lines(log)]
    for name in "ab":
        assert [line["number"] for line in found if line["writer"] == name] == list(range(2000))


def test_only_so_many_files_are_kept_and_they_are_the_newest(tmp_path: Path) -> None:
    log = RotatingLog(tmp_path / "part.log", max_bytes=100, max_files=3)
    write(log, b"".join(b"line %04d\n" % number for number in range(500)))
    assert [path.name for path in files(log)] == ["part.log.2", "part.log.1", "part.log"]
    kept = lines(log)
    assert kept == [f"line {number:04d}" for number in range(500 - len(kept), 500)]
    assert sum(path.stat().st_size for path in files(log)) <= 300


def test_who_is_killed_within_a_line_does_not_spoil_the_next(tmp_path: Path) -> None:
    log = RotatingLog(tmp_path / "part.log", max_bytes=1000, max_files=2)
    write(log, b"whole\nhal")
    write(log, b"next\n")
    assert lines(log) == ["whole", "hal", "next"]
    assert log.last_lines(2) == "the end of its log:\nhal\nnext"


def test_what_is_no_text_is_shown_and_stops_nobody(tmp_path: Path) -> None:
    log = RotatingLog(tmp_path / "part.log", max_bytes=1000, max_files=2)
    write(log, b"\xff\xfe\nnext\n")
    assert lines(log) == ["\\xff\\xfe", "next"]


def test_a_file_that_was_removed_is_there_again_for_the_next_writer(tmp_path: Path) -> None:
    log = RotatingLog(tmp_path / "part.log", max_bytes=1000, max_files=2)
    write(log, b"one\n")
    log.path.unlink()
    write(log, b"two\n")
    assert lines(log) == ["two"]


def test_lines_that_were_there_before_stay(tmp_path: Path) -> None:
    (tmp_path / "part.log").write_text("of the last start\n")
    log = RotatingLog(tmp_path / "part.log", max_bytes=1000, max_files=2)
    write(log, b"of this one\n")
    assert lines(log) == ["of the last start", "of this one"]


@pytest.mark.parametrize("broken", ["rename", "open"])
def test_a_disk_that_takes_nothing_ends_nobody(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, broken: str
) -> None:
    """Where no file can be renamed lines go into the one that is there; where none opens they are lost."""
    log = RotatingLog(tmp_path / "part.log", max_bytes=100, max_files=2)
    write(log, b"x" * 90 + b"\n")

    def refuse(*_args: object, **_named: object) -> None:
        raise OSError(errno.ENOSPC, "no space left on device")

    with monkeypatch.context() as patched:
        if broken == "rename":
            patched.setattr(os, "rename", refuse)
            write(log, b"while it was broken\n")
        else:
            sink = log.pipe()
            patched.setattr(log._files, "_open", refuse)
            os.write(sink, b"while it was broken\n")
            os.close(sink)
            log.drain()
    write(log, b"after\n")
    lost = {"while it was broken"} if broken == "open" else set()
    assert {"while it was broken", "after"} - set(lines(log)) == lost


def test_this_process_writes_its_own_lines_from_many_threads(tmp_path: Path) -> None:
    log = RotatingLog(tmp_path / "up.log", max_bytes=1000, max_files=100)
    with log.opened() as stream:

        def tell(name: int) -> None:
            for number in range(100):
                stream.write(f"{name} {number}\n")

        threads = [threading.Thread(target=tell, args=(name,)) for name in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert sorted(lines(log)) == sorted(f"{name} {number}" for name in range(4) for number in range(100))
