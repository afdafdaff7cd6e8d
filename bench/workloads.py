"""Workloads of the benchmarks, as module JSON."""

from tuner.tvm_light import load_tvm


def matmul_json(extent: int) -> str:
    """A float32 matmul of `extent`³ without operator fusion."""
    load_tvm()
    import tvm
    from tvm import te

    a = te.placeholder((extent, extent), name="A")
    b = te.placeholder((extent, extent), name="B")
    k = te.reduce_axis((0, extent), name="k")
    c = te.compute((extent, extent), lambda i, j: te.sum(a[i, k] * b[k, j], axis=k), name="C")
    function = te.create_prim_func([a, b, c]).with_attr("tirx.noalias", True)
    module = tvm.IRModule({"main": function.with_attr("global_symbol", "main")})
    text: str = tvm.ir.save_json(module)
    return text
