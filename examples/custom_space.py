"""A design space of one's own: the function runs here, its trace travels (`python -m examples.custom_space`).

As in stock TVM a plain callable brings no postprocs and no mutators. This space has eight programs at most;
the service measures each once, and ends well before the budget is spent.
"""

import tempfile

from examples.classroom import mm_space, modules
from tilefarm import tune_tir


def main() -> None:
    with tempfile.TemporaryDirectory() as work_dir:
        database = tune_tir(modules()["mm"], "local", work_dir, 32, space=mm_space)
    record = database.query_tuning_record(modules()["mm"], database.target("local"), "main")
    print("\n".join(record.trace.as_python()) if record else "there is no record")


if __name__ == "__main__":
    main()
