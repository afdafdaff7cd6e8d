"""Compile-time lookup: an existing compile step, inside one `with` (`python -m examples.lookup`).

It works whether the service is up or not: without a record the function is compiled as it is.
"""

import logging

import tvm
from tvm.relax.transform import MetaScheduleApplyDatabase

import tilefarm
from examples.classroom import modules

#: Equals the profile of a farm's worker; `database.target("local")` would ask the service for it.
TARGET = {"kind": "llvm", "mcpu": "x86-64-v3", "num-cores": 2}


def main() -> None:
    logging.basicConfig(format="%(levelname)s %(message)s")
    try:
        database = tilefarm.connect(timeout_secs=2)
    except tilefarm.NotConfiguredError as error:
        raise SystemExit(str(error)) from error
    try:
        target = database.target("local")
    except tilefarm.ServiceError:
        target = tvm.target.Target(TARGET)
    with target, database:
        applied = MetaScheduleApplyDatabase()(modules()["mm_relu"])
    tvm.compile(applied, target)
    print(database.stats())


if __name__ == "__main__":
    main()
