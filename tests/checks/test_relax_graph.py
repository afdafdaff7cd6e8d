"""Models at the first wall: real ones pass, with and without their weights; what reaches out is refused."""

import base64
import json
from typing import Any

import ml_dtypes
import numpy as np
import pytest
import tvm
import tvm_ffi
from tvm import relax
from tvm.relax import op

import tilefarm.tensors
from checks import tensors
from checks.graph import GraphError, GraphLimits, check_module_json
from checks.relax_allowed import OPERATOR_ATTRIBUTES, OPERATORS
from examples.mixture import mixture
from examples.models import models

_FLOAT = relax.TensorType((4, 4), "float32")


def graph(mod: tvm.IRModule) -> dict[str, Any]:
    return dict(json.loads(tvm.ir.save_json(mod)))


def calling(*calls: relax.Expr, params: tuple[relax.Var, ...] = ()) -> tvm.IRModule:
    """A model that computes each of these."""
    builder = relax.BlockBuilder()
    with builder.function("main", list(params)):
        results = [builder.emit(call) for call in calls]
        builder.emit_func_output(relax.Tuple(results))
    return builder.get()


def refusal(found: dict[str, Any], limits: GraphLimits | None = None) -> GraphError:
    with pytest.raises(GraphError) as raised:
        check_module_json(found, limits)
    return raised.value


def nodes_of(found: dict[str, Any], node_type: str) -> list[dict[str, Any]]:
    return [node for node in found["nodes"] if node["type"] == node_type]


def many_operators() -> tvm.IRModule:
    x, i = (
        relax.Var("x", relax.TensorType((2, 8, 8, 8), "float32")),
        relax.Var("i", relax.TensorType((4,), "int64")),
    )
    ones = relax.const(np.ones((8,), "float32"))
    return calling(
        op.astype(x, "float16"),
        op.clip(x, 0.0, 6.0),
        op.take(x, i, axis=1),
        op.sum(x, axis=[1], keepdims=True),
        op.nn.leakyrelu(x, 0.1),
        op.strided_slice(x, [2], [0], [4], [1]),
        op.concat([x, x], axis=1),
        op.split(x, 2, axis=1),
        op.split(x, [2, 5], axis=1),
        op.zeros((2, 2), "float32"),
        op.full((2, 2), relax.const(1.0), "float32"),
        op.arange(0, 10, 1, "int64"),
        op.nn.adaptive_avg_pool2d(x, (1, 1)),
        op.shape_of(x),
        op.topk(i, 2),
        op.image.resize2d(x, (16, 16)),
        op.nn.attention(x, x, x),
        op.nn.layer_norm(x, ones, ones, [-1]),
        op.einsum((i, i), "i,i->i"),
        op.nn.pad(x, [0, 0, 0, 0, 1, 1, 1, 1]),
        op.cumsum(x, 1),
        params=(x, i),
    )


@pytest.mark.parametrize("name", ["mlp", "linear", "cnn", "conv_bn", "resnet", "transformer"])
def test_a_model_passes_with_its_weights_as_parameters_as_constants_and_folded(name: str) -> None:
    model = models()[name]()
    check_module_json(graph(model.mod))
    bound = graph(model.bound())
    check_module_json(bound)
    folded = tensors.fold_weights(bound)
    check_module_json(folded)
    assert len(json.dumps(folded)) < 0.2 * len(json.dumps(bound)) or name in ("cnn", "conv_bn")
    assert all(len(node["data"]) < 100 for node in nodes_of(folded, "ffi.Tensor"))


@pytest.mark.parametrize("build", [mixture, many_operators])
def test_outside_functions_and_the_usual_operators_pass(build: Any) -> None:
    check_module_json(graph(build()))


def test_the_tables_are_those_of_tvm() -> None:
    assert set(tvm.ir.Op.list_op_names()) >= OPERATORS
    for name, fields in OPERATOR_ATTRIBUTES.items():
        info = tvm_ffi.core._lookup_or_register_type_info_from_type_key(name)
        assert [field.name for field in info.fields] == list(fields), name


@pytest.mark.parametrize(
    "call",
    [
        relax.op.call_inplace_packed("f", relax.Var("x", _FLOAT), inplace_indices=[0], ty_args=_FLOAT),
        relax.op.print(relax.Var("x", _FLOAT), format="{}"),
        relax.op.layout_transform(relax.Var("x", _FLOAT), lambda i, j: (j, i)),
        relax.op.memory.view(relax.Var("x", _FLOAT), (16,)),
    ],
    ids=["in place", "print", "index map", "view"],
)
def test_what_reaches_further_than_arithmetic_is_refused(call: relax.Expr) -> None:
    variable = next(argument for argument in call.args if isinstance(argument, tvm.ir.Var))
    assert refusal(graph(calling(call, params=(variable,)))).code in ("disallowed_op", "disallowed_node")


def test_no_function_of_the_service_is_named() -> None:
    found = graph(mixture())
    nodes_of(found, "ir.EnvFunc")[0]["data"] = "tvm.relax.struct_info.anything"
    assert refusal(found).code == "bad_field"


def test_a_symbolic_shape_is_refused_and_names_its_function() -> None:
    x = relax.Var("x", relax.TensorType((tvm.tirx.Var("n", "int64"), 4), "float32"))
    error = refusal(graph(calling(op.exp(x), params=(x,))))
    assert (error.code, error.function) == ("symbolic_shape", "main")


def test_a_relax_value_is_no_argument_of_a_tensorir_operator() -> None:
    found = graph(models()["cnn"]().bound())
    call = next(
        node
        for node in nodes_of(found, "ir.Call")
        if found["nodes"][node["data"]["op"]]["data"].startswith("tirx.")
    )
    constant = found["nodes"].index(nodes_of(found, "ir.GenericConst")[0])
    found["nodes"][call["data"]["args"]]["data"][0] = constant
    assert refusal(found).code in ("bad_field", "bad_reference")


def test_constants_are_counted_as_their_types_tell() -> None:
    folded = tensors.fold_weights(graph(models()["mlp"]().bound()))
    check_module_json(folded, GraphLimits(max_constant_bytes=(784 * 128 + 128 + 128 * 10 + 10) * 4))
    assert refusal(folded, GraphLimits(max_constant_bytes=400_000)).code == "too_large"


@pytest.mark.parametrize(
    "change",
    [
        lambda raw: raw[:-1],
        lambda raw: raw + b"\0",
        lambda raw: raw[:20],
        lambda raw: b"\0" + raw[1:],
        lambda raw: raw[:16] + b"\2" + raw[17:],
        lambda raw: raw[:24] + b"\x40" + raw[25:],
        lambda raw: raw[:30] + b"\2" + raw[31:],
        lambda raw: raw[:32] + b"\xff" * 8 + raw[40:],
    ],
    ids=["short", "long", "cut", "magic", "device", "rank", "lanes", "shape"],
)
def test_a_tensor_that_is_not_whole_is_refused(change: Any) -> None:
    found = graph(models()["mlp"]().bound())
    node = nodes_of(found, "ffi.Tensor")[0]
    node["data"] = base64.b64encode(change(base64.b64decode(node["data"]))).decode()
    assert refusal(found).code == "bad_field"


def test_a_tensor_of_another_shape_than_its_type_is_refused() -> None:
    found = graph(models()["mlp"]().bound())
    first, second = nodes_of(found, "ffi.Tensor")[:2]
    first["data"] = second["data"]
    assert refusal(found).code == "bad_field"


@pytest.mark.parametrize(
    ("value", "kept"),
    [
        (np.float32(2), True),
        (np.arange(64, dtype="int64"), True),
        (np.arange(65, dtype="int64"), False),
        (np.ones((2, 2), "float32"), False),
        (np.ones((2, 2), ml_dtypes.bfloat16), False),
        (np.ones((3,), "bool"), True),
    ],
    ids=["scalar", "shape", "table", "weight", "bfloat16", "mask"],
)
def test_weights_are_folded_and_what_may_be_a_shape_is_kept(value: Any, kept: bool) -> None:  # noqa: FBT001
    found = graph(calling(op.add(relax.const(value), relax.const(value))))
    folded = tensors.fold_weights(found)
    assert (folded == found) is kept
    check_module_json(folded)
    (node, *_) = nodes_of(folded, "ffi.Tensor")
    assert tensors.read_tensor(node["data"]).shape == (value.shape if kept else ())


def test_client_and_service_fold_by_the_same_code() -> None:
    import inspect

    assert inspect.getsource(tilefarm.tensors) == inspect.getsource(tensors)
