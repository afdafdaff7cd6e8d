"""Somebody's compiler on a GPU's host: `python -m tests.system.gpu_consumer URL TOKEN` says how it fared.

It looks one function up, builds it for the GPU and runs it there; a line of JSON tells what came of it.
"""

import json
import os
import sys
import tempfile
from pathlib import Path

import numpy as np

from workers.cuda_code import load_cuda, load_cuda_runtime, load_device_api
from workers.cuda_headers import lay_out
from workers.cuda_packages import headers


def main() -> None:
    url, token = sys.argv[1:]
    with tempfile.TemporaryDirectory() as directory:
        _short, own = lay_out(headers(), Path(directory))
        os.environ["CUDA_PATH"] = str(own)
        load_cuda_runtime()
        load_cuda()
        load_device_api()
        sys.stdout.write(json.dumps(_consumed(url, token)))


def _consumed(url: str, token: str) -> dict[str, object]:
    import tvm
    from tvm.s_tir.meta_schedule.tir_integration import compile_tir

    import tilefarm
    from examples.classroom import modules

    db = tilefarm.connect(url, token, timeout_secs=20)
    target = db.target("local")
    schedule = compile_tir(db, modules()["mm_relu"], target)
    if schedule is None:
        return {"tuned": False}
    a, b = (np.random.default_rng(seed).random((128, 128), dtype="float32") for seed in (0, 1))
    device = tvm.cuda(0)
    held = [tvm.runtime.tensor(array, device) for array in (a, b, np.zeros((128, 128), "float32"))]
    built = tvm.compile(schedule.mod, target).jit()
    built["main"](*held)
    wrong = np.abs(held[-1].numpy() - np.maximum(a @ b, 0)).max()
    secs = built.time_evaluator("main", device, number=100, repeat=5)(*held).median
    return {"tuned": True, "wrong": float(wrong), "secs": float(secs), "target": str(target.kind)}


if __name__ == "__main__":
    main()
