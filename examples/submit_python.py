"""Submission from Python: what `ms.tune_tir` does, run on the service (`python -m examples.submit_python`).

Leaving stock TVM is one changed import; the arguments are the same. The service is the one that TILEFARM_URL
and TILEFARM_TOKEN name, or the one that runs on this machine (`make up`).
"""

import tempfile

from tvm.s_tir.meta_schedule.tir_integration import compile_tir

from examples.classroom import modules
from tilefarm import tune_tir


def main() -> None:
    mod = modules()["mm_relu"]
    with tempfile.TemporaryDirectory() as work_dir:
        database = tune_tir(mod, "local", work_dir, 64)
    schedule = compile_tir(database, mod, database.target("local"))
    print(schedule.mod.script() if schedule else "the farm found nothing better than the untuned function")


if __name__ == "__main__":
    main()
