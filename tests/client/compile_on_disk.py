"""`python -m tests.client.compile_on_disk HOME LOCK`: hits, misses and a model, and a hit by a lock file.

HOME, where all would be kept, is full or read-only, and there is no network. What came of it is printed as
JSON.
"""

import json
import os
import socket
import sys
from pathlib import Path

import tilefarm
from tests.client.conftest import TARGET, FakeService, MMRelu, database, record
from tests.client.test_compile_relax import compiled_right
from tests.client.test_database import compiled, is_tuned
from tilefarm import module


def main() -> None:
    home = Path(sys.argv[1])
    os.environ["HOME"] = str(home)
    for name in ("TILEFARM_CACHE_DIR", "TILEFARM_DATA_DIR", "XDG_CACHE_HOME", "XDG_DATA_HOME"):
        os.environ.pop(name, None)
    service = FakeService()
    service.records[module.workload_of(MMRelu).shash] = record()
    told: list[tilefarm.Miss] = []
    hit = is_tuned(compiled(database(service)).mod)
    warned = compiled(database(service), target={**TARGET, "num-cores": 4}) is None
    right = compiled_right(database(service, on_miss=told.append))
    for db in (database(service), database(service, on_miss="silent")):
        assert is_tuned(compiled(db).mod)
        db.close()
    files = [path for path in home.rglob("*") if path.is_file() and path.stat().st_size]
    locked = tilefarm.connect("http://192.0.2.1", lock=sys.argv[2])
    found = {
        "hit": hit,
        "missed": warned,
        "model": right,
        "commands": [miss.command for miss in told],
        "requests": len(service.requests),
        "written": [str(path.relative_to(home)) for path in files],
        "locked": is_tuned(compiled(locked).mod),
        "locked_secs": locked.stats().total_secs,
        "networks": [name for _, name in socket.if_nameindex()],
    }
    sys.stdout.write(json.dumps(found))


if __name__ == "__main__":
    main()
