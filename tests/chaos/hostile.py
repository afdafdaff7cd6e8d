# ruff: noqa: N803, N806, N812, ANN - its words are TVMScript
"""A module whose kernel attacks the host once a file exists; the API would refuse it, so rows bring it in.

It is the classroom's `mm` beside a block that does harm. The fork bomb is a real one: every process that it
makes goes on forking. Whoever arms it sees first that the sandbox's wall stands.
"""

from pathlib import Path

from tuner.tvm_light import load_tvm

tvm = load_tvm()
from tvm.script import tirx as T  # noqa: E402 - after the light loader

#: Files that arm the kernel, in its directory; it opens one before it does harm, and is known by that.
FORK_BOMB, DAEMON, TEBIBYTE = "fork-bomb", "daemon", "tebibyte"


def module_text(directory: Path) -> str:
    """The canonical JSON of the module."""
    bomb, daemon, tebibyte = (str(directory / name) for name in (FORK_BOMB, DAEMON, TEBIBYTE))

    @T.prim_func(s_tir=True)
    def main(
        A: T.Buffer((128, 128), "float32"),
        B: T.Buffer((128, 128), "float32"),
        C: T.Buffer((128, 128), "float32"),
    ):
        T.func_attr({"global_symbol": "main", "tirx.noalias": True})
        D = T.sblock_alloc_buffer((1,), "int32")
        for n in range(1):
            with T.sblock("harm"):
                vn = T.axis.spatial(1, n)
                T.reads()
                T.writes(D[vn])
                D[vn] = 0
                if T.call_extern("int32", "access", bomb, 0) == 0:
                    T.evaluate(T.call_extern("int32", "open", bomb, 0))
                    for _ in T.serial(1 << 16):
                        T.evaluate(T.call_extern("int32", "fork"))
                if T.call_extern("int32", "access", daemon, 0) == 0:
                    T.evaluate(T.call_extern("int32", "open", daemon, 0))
                    if T.call_extern("int32", "fork") == 0:
                        T.evaluate(T.call_extern("int32", "setsid"))
                        if T.call_extern("int32", "fork") > 0:
                            T.evaluate(T.call_extern("int32", "_exit", 0))
                        T.evaluate(T.call_extern("int32", "sleep", 3600))
                if T.call_extern("int32", "access", tebibyte, 0) == 0:
                    T.evaluate(T.call_extern("int32", "open", tebibyte, 0))
                    T.evaluate(
                        T.call_extern(
                            "handle",
                            "memset",
                            # Read and write, private and anonymous. LLVM would leave a `malloc` out.
                            T.call_extern(
                                "handle", "mmap", T.int64(0), T.int64(1 << 40), 3, 0x22, -1, T.int64(0)
                            ),
                            1,
                            T.int64(1 << 40),
                        )
                    )
        for i, j, k in T.grid(128, 128, 128):
            with T.sblock("C"):
                vi, vj, vk = T.axis.remap("SSR", [i, j, k])
                with T.init():
                    C[vi, vj] = T.float32(0)
                C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]

    return str(tvm.ir.save_json(tvm.IRModule({"main": main})))
