"""What a trace may be made of: allow-lists, as data; the client's copy of the service's.

Instruction kinds and their attributes follow apache-tvm 0.27 (src/s_tir/schedule/primitive and the
instructions' AsJSON); annotation keys are those that the stock rules write. Tests keep both copies equal.
"""

import re
from typing import Final

#: Attributes by instruction kind, in order.
INSTRUCTIONS: Final[dict[str, tuple[str, ...]]] = {
    "GetSBlock": ("name", "name"),
    "GetLoops": (),
    "GetChildBlocks": (),
    "GetProducers": (),
    "GetConsumers": (),
    "SamplePerfectTile": ("small", "small"),
    "SampleCategorical": ("candidates", "probabilities"),
    "SampleComputeLocation": (),
    "Split": ("flag", "flag"),
    "Fuse": ("flag",),
    "Merge": (),
    "AddUnitLoop": (),
    "Reorder": (),
    "Bind": ("thread",),
    "Parallel": (),
    "Vectorize": (),
    "Unroll": (),
    "CacheRead": ("small", "scope"),
    "CacheWrite": ("small", "scope"),
    "ReIndex": ("small", "flag"),
    "ComputeAt": ("flag", "place"),
    "ReverseComputeAt": ("flag", "place"),
    "ComputeInline": (),
    "ReverseComputeInline": (),
    "DecomposeReduction": (),
    "RFactor": ("axis",),
    "Blockize": ("flag",),
    "Tensorize": ("intrinsic", "flag"),
    "TransformLayout": ("small", "flag", "none", "flag"),
    "TransformBlockLayout": ("index_map",),
    "PadEinsum": ("paddings",),
    "StorageAlign": ("small", "axis", "alignment", "alignment"),
    "SetScope": ("small", "scope"),
    "Annotate": ("key",),
    "Unannotate": ("removed",),
    "EnterPostproc": (),
}

#: Each makes a block, some one more.
BLOCK_MAKERS: Final = frozenset(
    {"CacheRead", "CacheWrite", "ReIndex", "DecomposeReduction", "RFactor", "Blockize", "PadEinsum"}
)

#: Annotation keys, with what their value may be.
ANNOTATIONS: Final[dict[str, str]] = {
    "meta_schedule.tiling_structure": "tiling",
    "meta_schedule.cooperative_fetch": "unroll",
    "meta_schedule.thread_extent_low_inclusive": "threads",
    "meta_schedule.thread_extent_high_inclusive": "threads",
    "meta_schedule.random_compute_producer": "flag",
    "meta_schedule.parallel": "parallel",
    "meta_schedule.vectorize": "unroll",
    "meta_schedule.unroll_explicit": "unroll",
    "meta_schedule.unroll_implicit": "unroll",
    "meta_schedule.auto_tensorize": "intrinsic",
    "meta_schedule.auto_tensorize_init": "intrinsic",
    "meta_schedule.layout_rewrite_preproc": "flag",
    "pragma_auto_unroll_max_step": "unroll",
    "pragma_loop_partition_hint": "flag",
    "pragma_unroll_explicit": "flag",
    "software_pipeline_stage": "stages",
    "software_pipeline_order": "stages",
    "software_pipeline_async_stages": "stages",
    "warp_execution": "flag",
}

#: Keys that a trace may take away but not set: pooling comes with a rule's name from topi.
REMOVED_ONLY: Final = frozenset({"schedule_rule"})

#: Upper bounds of annotation values that are numbers.
ANNOTATION_BOUNDS: Final = {"unroll": 1024, "threads": 4096, "parallel": 1 << 20, "flag": 1}

SCOPES: Final = frozenset(
    {
        *("global", "local", "shared", "shared.dyn", "warp"),
        *("wmma.matrix_a", "wmma.matrix_b", "wmma.accumulator"),
        *("m16n8k8.matrixA", "m16n8k8.matrixB", "m16n8k8.matrixC"),
    }
)
THREADS: Final = frozenset(
    {f"{kind}.{axis}" for kind in ("blockIdx", "threadIdx") for axis in "xyz"}
    | {"vthread", "vthread.x", "vthread.y", "vthread.z"}
)
#: Families of TVM's own tensor intrinsics for x86 and CUDA.
INTRINSIC: Final = re.compile(r"(wmma|mma|mma_sync|ldmatrix|dp4a|dot|avx512|vnni|amx)_[A-Za-z0-9_]{1,100}")
#: Instruction kinds that take a decision.
SAMPLING: Final = frozenset({"SamplePerfectTile", "SampleCategorical", "SampleComputeLocation"})
