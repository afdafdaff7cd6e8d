"""Imported before workers/preload.py by the fork server of a worker that serves a CUDA target.

NVIDIA's runtime must be there before TVM, and TVM parses the intrinsics of tensor cores for seconds: here
once, not in each child. No GPU is touched: a process that has used one must not fork.
"""

from tuner.tvm_light import has_compiler, load_tvm
from workers.cuda_code import load_cuda, load_cuda_runtime

load_cuda_runtime()
load_tvm("cuda")
load_cuda()
if has_compiler():
    import cuda.bindings.nvrtc  # noqa: F401 - TVM calls the compiler by it
