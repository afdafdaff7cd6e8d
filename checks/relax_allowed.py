"""What a submitted model may be made of beyond its TensorIR: nodes and operators of Relax, as data.

Operators are pure and lowered by TVM to TensorIR, or call a function outside the module, which the service
never does. Left out is what reaches the virtual machine, devices, other processes, or a global function.
Fields follow the reflection of apache-tvm 0.27, in the notation of checks.graph_allowed.
"""

from typing import Final

_EXPR: Final = {"span": "span?", "ty": "type"}

#: Fields by node type.
NODES: Final[dict[str, dict[str, str]]] = {
    "relax.expr.Function": {
        **_EXPR,
        "attrs": "attrs",
        "params": "[var]",
        "body": "seq",
        "ret_ty": "type",
        "is_pure": "bool",
    },
    "relax.expr.SeqExpr": {**_EXPR, "blocks": "[bindingblock]", "body": "argument"},
    "relax.expr.BindingBlock": {"bindings": "[binding]", "span": "span?"},
    "relax.expr.DataflowBlock": {"bindings": "[binding]", "span": "span?"},
    "relax.expr.VarBinding": {"span": "span?", "var": "var", "value": "argument"},
    "relax.expr.MatchCast": {"span": "span?", "var": "var", "value": "argument", "ty": "type"},
    "relax.expr.If": {**_EXPR, "cond": "argument", "true_branch": "seq", "false_branch": "seq"},
    "relax.expr.DataflowVar": {**_EXPR, "name": "string"},
    "relax.expr.ExternFunc": {**_EXPR, "attrs": "attrs", "global_symbol": "string"},
    "ir.GenericConst": {**_EXPR, "value": "tensor"},
    "ir.StringImm": {**_EXPR, "value": "string"},
    "ir.Tuple": {**_EXPR, "fields": "[argument]"},
    "ir.TupleGetItem": {**_EXPR, "tuple_value": "argument", "index": "int"},
    "relax.AnyType": {"span": "span?"},
}

#: Where it is not that of an ordinary expression.
SORTS: Final[dict[str, str]] = {
    "relax.expr.Function": "function",
    "relax.expr.SeqExpr": "seq",
    "relax.expr.BindingBlock": "bindingblock",
    "relax.expr.DataflowBlock": "bindingblock",
    "relax.expr.VarBinding": "binding",
    "relax.expr.MatchCast": "binding",
    "relax.expr.DataflowVar": "var",
    "relax.expr.ExternFunc": "extern",
    "relax.AnyType": "type",
    "relax.expr.If": "relax",
    "ir.GenericConst": "relax",
    "ir.StringImm": "relax",
    "ir.Tuple": "relax",
    "ir.TupleGetItem": "relax",
    "ir.EnvFunc": "envfunc",
    "ffi.Tensor": "tensor",
    "DataType": "dtypevalue",
}

#: Attributes of operators, without their prefix `relax.attrs.` and suffix `Attrs`.
_OPERATOR_ATTRIBUTES: Final[dict[str, str]] = {
    "AdaptivePool1D": "output_size=[integer]? layout=string out_layout=string",
    "AdaptivePool2D": "output_size=[integer]? layout=string out_layout=string",
    "AdaptivePool3D": "output_size=[integer]? layout=string out_layout=string",
    "ArgmaxArgmin": "axis=integer? keepdims=bool",
    "Argsort": "axis=int descending=bool dtype=dtypevalue?",
    "Astype": "dtype=dtype",
    "Attention": "scale=expr? causal_mask=string? window_size=expr?",
    "BatchNorm": "axis=int epsilon=float center=bool scale=bool momentum=float training=bool",
    "CallTIRInplace": "inplace_indices=[integer]",
    "Concat": "axis=integer?",
    "Conv1D": (
        "strides=[integer] padding=[integer] dilation=[integer] groups=int data_layout=string "
        "kernel_layout=string out_layout=string out_dtype=dtypevalue?"
    ),
    "Conv1DTranspose": (
        "strides=[integer] padding=[integer] output_padding=[integer] dilation=[integer] groups=int "
        "data_layout=string kernel_layout=string out_layout=string out_dtype=dtypevalue?"
    ),
    "Conv2D": (
        "strides=[integer] padding=[integer] dilation=[integer] groups=int data_layout=string "
        "kernel_layout=string out_layout=string out_dtype=dtypevalue?"
    ),
    "Conv2DTranspose": (
        "strides=[integer] padding=[integer] output_padding=[integer] dilation=[integer] groups=int "
        "data_layout=string kernel_layout=string out_layout=string out_dtype=dtypevalue?"
    ),
    "Conv3D": (
        "strides=[integer] padding=[integer] dilation=[integer] groups=int data_layout=string "
        "kernel_layout=string out_layout=string out_dtype=dtypevalue?"
    ),
    "Conv3DTranspose": (
        "strides=[integer] padding=[integer] output_padding=[integer] dilation=[integer] groups=int "
        "data_layout=string kernel_layout=string out_layout=string out_dtype=dtypevalue?"
    ),
    "Dropout": "rate=float",
    "Einsum": "subscripts=string",
    "ExpandDims": "axis=[integer]",
    "Flip": "axis=int",
    "GatherElements": "axis=int",
    "GatherND": "batch_dims=int",
    "GroupNorm": "num_groups=int channel_axis=int axes=[integer] epsilon=float center=bool scale=bool",
    "IndexPut": "accumulate=bool",
    "Init": "dtype=dtypevalue?",
    "InstanceNorm": "channel_axis=int axes=[integer] epsilon=float center=bool scale=bool",
    "LayerNorm": "axes=[integer] epsilon=float center=bool scale=bool",
    "LeakyRelu": "alpha=float",
    "Matmul": "out_dtype=dtypevalue?",
    "Meshgrid": "indexing=string?",
    "MultinomialFromUniform": "dtype=dtype",
    "NLLLoss": "reduction=string ignore_index=int",
    "OneHot": "depth=int axis=int",
    "PRelu": "axis=int",
    "Pad": "pad_width=[integer] pad_value=float pad_mode=string",
    "PermuteDims": "axes=[integer]?",
    "PixelShuffle": "upscale_factor=int",
    "Pool1D": (
        "pool_size=[integer] strides=[integer] dilation=[integer] padding=[integer] ceil_mode=bool "
        "count_include_pad=bool layout=string out_layout=string"
    ),
    "Pool2D": (
        "pool_size=[integer] strides=[integer] dilation=[integer] padding=[integer] ceil_mode=bool "
        "count_include_pad=bool layout=string out_layout=string"
    ),
    "Pool3D": (
        "pool_size=[integer] strides=[integer] dilation=[integer] padding=[integer] ceil_mode=bool "
        "count_include_pad=bool layout=string out_layout=string"
    ),
    "Quantize": "out_dtype=dtype axis=int",
    "RMSNorm": "axes=[integer] epsilon=float",
    "ROIAlign": (
        "pooled_size=[integer] spatial_scale=float sample_ratio=int aligned=bool layout=string mode=string"
    ),
    "ROIPool": "pooled_size=[integer] spatial_scale=float layout=string",
    "Repeat": "repeats=int axis=integer?",
    "Resize2D": (
        "roi=[expr] layout=string method=string coordinate_transformation_mode=string "
        "rounding_method=string cubic_alpha=float cubic_exclude=int extrapolation_value=float "
        "out_dtype=dtypevalue?"
    ),
    "ReverseSequence": "seq_axis=int batch_axis=int",
    "Scanop": "axis=integer? dtype=dtypevalue? exclusive=bool",
    "ScatterElements": "axis=int reduction=string",
    "ScatterND": "reduction=string",
    "SliceScatter": "axis=int",
    "Softmax": "axis=int",
    "Softplus": "beta=float threshold=float",
    "Sort": "axis=int descending=bool",
    "Split": "indices_or_sections=sections axis=int",
    "Squeeze": "axis=[integer]?",
    "Stack": "axis=integer?",
    "Statistical": "axis=[integer]? keepdims=bool",
    "StridedSlice": "assume_inbound=bool",
    "Take": "axis=integer? mode=string",
    "Tile": "repeats=[integer]",
    "TopK": "k=int axis=int ret_type=string largest=bool dtype=dtypevalue?",
    "Trilu": "k=int",
}
OPERATOR_ATTRIBUTES: Final[dict[str, dict[str, str]]] = {
    f"relax.attrs.{name}Attrs": dict(field.split("=") for field in fields.split())
    for name, fields in _OPERATOR_ATTRIBUTES.items()
}

_OPERATORS: Final[dict[str, str]] = {
    "": (
        "abs acos acosh add arange argmax argmin argsort asin asinh astype atan atan2 atanh "
        "bitwise_and bitwise_not bitwise_or bitwise_xor broadcast_to bucketize call_dps_packed "
        "call_pure_packed call_tir call_tir_inplace ceil clip collapse_sum_like collapse_sum_to "
        "concat cos cosh cumprod cumsum dequantize divide dynamic_strided_slice einsum equal erf "
        "ewise_fma exp expand_dims eye eye_like flatten flip floor floor_divide floor_mod full "
        "full_like gather_elements gather_nd greater greater_equal hamming_window index_put "
        "index_tensor isfinite isinf isnan left_shift less less_equal log log_add_exp logical_and "
        "logical_not logical_or logical_xor matmul max maximum mean median meshgrid min minimum mod "
        "multinomial_from_uniform multiply negative nonzero not_equal null_value one_hot ones "
        "ones_like outer permute_dims power prod quantize repeat reshape reverse_sequence right_shift "
        "round rsqrt scatter_elements scatter_nd shape_of shape_to_tensor sigmoid sign sin sinh size "
        "slice_scatter sort split sqrt square squeeze stack std strided_slice subtract sum take tan "
        "tanh tensor_to_shape tile topk tril triu trunc unique variance where zeros zeros_like"
    ),
    "nn.": (
        "adaptive_avg_pool1d adaptive_avg_pool2d adaptive_avg_pool3d attention attention_bias "
        "attention_var_len avg_pool1d avg_pool2d avg_pool3d batch_flatten batch_norm conv1d "
        "conv1d_transpose conv2d conv2d_transpose conv3d conv3d_transpose cross_entropy_with_logits "
        "dropout gelu gelu_tanh group_norm instance_norm layer_norm leakyrelu log_softmax max_pool1d "
        "max_pool2d max_pool3d nll_loss pad pixel_shuffle prelu relu rms_norm selu silu softmax "
        "softplus"
    ),
    "image.": "affine_grid grid_sample resize2d resize3d",
    "vision.": "roi_align roi_pool",
}
OPERATORS: Final = frozenset(
    f"relax.{group}{name}" for group, names in _OPERATORS.items() for name in names.split()
)

#: The one function that a type may name: TVM types calls of outside functions by it.
ENV_FUNCS: Final = frozenset({"tvm.relax.type.infer_by_ty_args"})
