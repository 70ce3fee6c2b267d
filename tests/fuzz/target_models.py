"""Models that are single files: ONNX graphs, weights of torch and safetensors, BatchNorm sets beside a package."""

from __future__ import annotations

import functools
import importlib.util
import io
import random
import tempfile
from pathlib import Path
from typing import Any

import torch
from fuzzing import Target, Wrong
from mutations import NUMBERS, WORDS, damaged_bytes
from target_packages import Files, _read, _unpack, damaged_json, damaged_tensors

from holdfast.errors import ModelError
from holdfast.models import Embedder, load_model
from holdfast.models.bank import BANK_FILE, SetStart
from holdfast.models.weights import load_backbone_weights, read_state

SIDE = 8
"""Of the images that the small graph takes."""


@functools.cache
def _graph() -> bytes:
    """A graph of the form that `holdfast export` writes: a convolution, pooled and flattened."""
    from onnx import TensorProto, helper

    weights = helper.make_tensor("w", TensorProto.FLOAT, (4, 3, 3, 3), [0.01 * i for i in range(108)])
    shape = helper.make_tensor("s", TensorProto.INT64, (2,), [0, -1])
    nodes = [
        helper.make_node("Conv", ["images", "w"], ["c"], kernel_shape=[3, 3], pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["c"], ["r"]),
        helper.make_node("GlobalAveragePool", ["r"], ["p"]),
        helper.make_node("Reshape", ["p", "s"], ["embeddings"]),
    ]
    images = helper.make_tensor_value_info("images", TensorProto.FLOAT, ("batch", 3, SIDE, SIDE))
    vectors = helper.make_tensor_value_info("embeddings", TensorProto.FLOAT, ("batch", 4))
    model = helper.make_model(
        helper.make_graph(nodes, "small", [images], [vectors], [weights, shape]),
        opset_imports=[helper.make_opsetid("", 17)],
        ir_version=8,
    )
    for key, value in (("canvas", str(SIDE)), ("unit_length", "yes"), ("fit", "pad"), ("interpolation", "bicubic")):
        model.metadata_props.add(key=f"holdfast.{key}", value=value)
    return bytes(model.SerializeToString())


def _onnx(draw: random.Random, folder: Path) -> None:
    if importlib.util.find_spec("onnx") is None or importlib.util.find_spec("onnxruntime") is None:
        raise ModelError("ONNX needs onnx and onnxruntime")  # as the command says it there
    content = _graph()
    if draw.random() < 0.7:
        content = _other_graph(content, draw)
    if draw.random() < 0.5:
        content = damaged_bytes(content, draw)
    file = folder / "model.onnx"
    file.write_bytes(content)
    model = load_model(f"onnx:{file}", draw.choice((None, None, SIDE)))
    if model.size <= 64:
        found = model(torch.rand(2, 3, model.size, model.size))
        if found.shape != (2, model.dim) or not found.is_floating_point():
            raise Wrong(
                f"vectors of shape {tuple(found.shape)} and type {found.dtype} from a model of {model.dim} dims"
            )


def _other_graph(content: bytes, draw: random.Random) -> bytes:
    """A whole protobuf message that says something else."""
    import onnx

    proto = onnx.load_model_from_string(content)
    for _ in range(draw.choice((1, 1, 2, 3))):
        _CHANGES[draw.randrange(len(_CHANGES))](proto, draw)
    return bytes(proto.SerializeToString())


def _number(draw: random.Random) -> int:
    whole = [number for number in NUMBERS if type(number) is int and -(2**63) <= number < 2**63]
    return int(draw.choice((*whole, 4, 8, 16, 64)))


def _sizes(proto: Any, draw: random.Random) -> None:
    values = draw.choice((proto.graph.input, proto.graph.output))
    sides = values[draw.randrange(len(values))].type.tensor_type.shape.dim if len(values) else []
    if len(sides):
        sides[draw.randrange(len(sides))].dim_value = _number(draw)


def _ranks(proto: Any, draw: random.Random) -> None:
    for value in (*proto.graph.input, *proto.graph.output):
        if draw.random() < 0.5:
            shape = value.type.tensor_type.shape
            if draw.random() < 0.5 and len(shape.dim):
                del shape.dim[draw.randrange(len(shape.dim))]
            else:
                shape.dim.add(dim_value=_number(draw))


def _types(proto: Any, draw: random.Random) -> None:
    value = draw.choice([*proto.graph.input, *proto.graph.output] or [proto.graph.value_info.add()])
    value.type.tensor_type.elem_type = draw.randrange(20)


def _notes(proto: Any, draw: random.Random) -> None:
    word = draw.choice([word for word in WORDS if word.isascii() or word.isprintable()])
    keys = ("canvas", "unit_length", "size", "fit", "interpolation")
    key = draw.choice((*(f"holdfast.{key}" for key in keys), "other"))
    proto.metadata_props.add(key=key, value=draw.choice((word, str(_number(draw)))))


def _operators(proto: Any, draw: random.Random) -> None:
    if len(proto.graph.node):
        node = proto.graph.node[draw.randrange(len(proto.graph.node))]
        node.op_type = draw.choice(
            ("Conv", "Relu", "Flatten", "NonZero", "Tile", "Expand", "Loop", "If", "Nothing", "Shape")
        )
        if draw.random() < 0.3:
            node.domain = draw.choice(("com.microsoft", "ai.onnx.ml", "nowhere"))


def _wires(proto: Any, draw: random.Random) -> None:
    if len(proto.graph.node):
        node = proto.graph.node[draw.randrange(len(proto.graph.node))]
        places = draw.choice((node.input, node.output))
        if len(places):
            places[draw.randrange(len(places))] = draw.choice(("images", "w", "s", "c", "r", "embeddings", "", "none"))


def _attributes(proto: Any, draw: random.Random) -> None:
    for node in proto.graph.node:
        for attribute in node.attribute:
            if len(attribute.ints) and draw.random() < 0.7:
                attribute.ints[draw.randrange(len(attribute.ints))] = _number(draw)


def _tensors(proto: Any, draw: random.Random) -> None:
    if len(proto.graph.initializer):
        tensor = proto.graph.initializer[draw.randrange(len(proto.graph.initializer))]
        kind = draw.randrange(4)
        if kind == 0 and len(tensor.dims):
            tensor.dims[draw.randrange(len(tensor.dims))] = _number(draw)
        elif kind == 1:
            tensor.data_type = draw.randrange(24)
        elif kind == 2 and len(tensor.int64_data):
            tensor.int64_data[draw.randrange(len(tensor.int64_data))] = _number(draw)
        else:
            tensor.data_location = 1
            for key in ("location", "offset", "length"):
                tensor.external_data.add(
                    key=key, value=draw.choice(("../x", "x", "/dev/zero", "0", "-1", "99999999999"))
                )


def _versions(proto: Any, draw: random.Random) -> None:
    proto.ir_version = draw.choice((0, 1, 3, 8, 99, 2**40))
    if len(proto.opset_import):
        proto.opset_import[0].version = draw.choice((0, 1, 7, 13, 17, 21, 999, -1))


def _ends(proto: Any, draw: random.Random) -> None:
    values = draw.choice((proto.graph.input, proto.graph.output))
    if draw.random() < 0.5 and len(values):
        del values[0]
    elif len(values):
        values.add().CopyFrom(values[0])
        values[-1].name = draw.choice(("other", "c", "r", "images"))


_CHANGES = (_sizes, _ranks, _types, _notes, _operators, _wires, _attributes, _tensors, _versions, _ends)


@functools.cache
def _backbone() -> Embedder:
    torch.manual_seed(0)
    return Embedder("conv-tiny", dim=4)


@functools.cache
def _weights(kind: str) -> bytes:
    from safetensors.torch import save

    state = {name: tensor.clone() for name, tensor in _backbone().backbone.state_dict().items()}
    if kind == "safetensors":
        return save(state)
    out = io.BytesIO()
    torch.save(state if kind == "pt" else {"state_dict": state, "epoch": 3, "args": [1, "x"]}, out)
    return out.getvalue()


def _weight_file(draw: random.Random, folder: Path) -> None:
    kind = draw.choice(("safetensors", "pt", "pth"))
    content = _weights(kind)
    if kind == "safetensors":
        content = damaged_tensors(content, draw)
    else:
        content = damaged_bytes(content, draw) if draw.random() < 0.7 else _odd_state(draw)
    file = folder / f"weights.{kind}"
    file.write_bytes(content)
    if not all(isinstance(tensor, torch.Tensor) for tensor in read_state(file).values()):
        raise Wrong("weights that are no tensors")
    load_backbone_weights(Embedder("conv-tiny", dim=4).backbone, "conv-tiny", str(file))


def _odd_state(draw: random.Random) -> bytes:
    """What torch may hold beside weights: other types, other shapes, lists of lists."""
    state: Any = {name: tensor.clone() for name, tensor in _backbone().backbone.state_dict().items()}
    name = draw.choice(sorted(state))
    odd = (torch.zeros(1), torch.zeros(3, dtype=torch.int8), torch.full((2, 2), torch.nan), "word", None, [1], {"a": 1})
    state[draw.choice((name, f"module.{name}", "", "x" * 5000, 7))] = draw.choice(odd)
    whole = draw.choice((state, [state], {"state_dict": [1]}, {"state_dict": None}, {}, None, 3, {"model": state}, "x"))
    out = io.BytesIO()
    torch.save(whole, out)
    return out.getvalue()


@functools.cache
def _sets() -> Files:
    with tempfile.TemporaryDirectory() as folder:
        torch.manual_seed(0)
        model = Embedder("conv-tiny", dim=4)
        model.bank.add(model.backbone, SetStart("stax"))
        model.save_pretrained(folder)
        model.bank.save(Path(folder))
        return {name: content for name, content in _read(Path(folder)).items() if not name.endswith(".md")}


def _bank(draw: random.Random, folder: Path) -> None:
    files = dict(_sets())
    files[BANK_FILE] = damaged_tensors(files[BANK_FILE], draw)
    if draw.random() < 0.1:
        files["config.json"] = damaged_json(files["config.json"], draw)
    _unpack(files, folder)
    model = load_model(str(folder), sets=True)
    for name in model.bank.names():
        if model.size <= 64:
            model(torch.zeros(2, 3, model.size, model.size), distribution=name)


TARGETS = (
    Target("onnx", _onnx, 25),
    Target("weights", _weight_file, 30),
    Target("batchnorm-sets", _bank, 30),
)
