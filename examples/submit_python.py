"""Submission from Python: what `ms.tune_tir` does, run on the service.

`python -m examples.submit_python [MAX_TRIALS]`, 64 where none are given.

Leaving stock TVM is one changed import; the arguments are the same. The service is the one that TILEFARM_URL
and TILEFARM_TOKEN name, or the one that runs on this machine (`make up`).
"""

import sys
import tempfile

from tvm.s_tir.meta_schedule.tir_integration import compile_tir

from examples.classroom import modules
from tilefarm import tune_tir


def main() -> None:
    mod = modules()["mm_relu"]
    max_trials = int(sys.argv[1]) if len(sys.argv) > 1 else 64
    with tempfile.TemporaryDirectory() as work_dir:
        database = tune_tir(mod, "local", work_dir, max_trials)
    schedule = compile_tir(database, mod, database.target("local"))
    print(schedule.mod.script() if schedule else "the farm found nothing better than the untuned function")


if __name__ == "__main__":
    main()
