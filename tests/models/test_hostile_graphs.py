"""A stranger's ONNX file and weights: one line, and nothing of theirs on the terminal."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from holdfast.errors import ModelError
from holdfast.models import load_model
from holdfast.models.weights import read_state

STEERS = "\x1b[31mred\x07"
"""What turns a terminal red and rings its bell."""


def graph(name: str = "out", kernel: int = 3, note: bytes = b"000008", batch: int | str = "batch") -> bytes:
    """A convolution over images of 8 × 8."""
    onnx = pytest.importorskip("onnx")
    pytest.importorskip("onnxruntime")
    helper, kind = onnx.helper, onnx.TensorProto.FLOAT
    weights = helper.make_tensor("w", kind, (4, 3, 3, 3), [0.1] * 108)
    nodes = [
        helper.make_node("Conv", ["images", "w"], ["c"], name=name, kernel_shape=[kernel, 3]),
        helper.make_node("GlobalAveragePool", ["c"], ["p"]),
        helper.make_node("Flatten", ["p"], [name]),
    ]
    images = helper.make_tensor_value_info("images", kind, (batch, 3, 8, 8))
    vectors = helper.make_tensor_value_info(name, kind, (batch, 4))
    made = helper.make_graph(nodes, "g", [images], [vectors], [weights])
    model = helper.make_model(made, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    model.metadata_props.add(key="holdfast.canvas", value="CANVAS")
    content: bytes = model.SerializeToString()
    return content.replace(b"CANVAS", note)


def test_the_graph_itself_is_whole(tmp_path: Path) -> None:
    (tmp_path / "m.onnx").write_bytes(graph())
    assert load_model(f"onnx:{tmp_path / 'm.onnx'}").dim == 4


@pytest.mark.parametrize(
    "settings", [{"name": STEERS, "kernel": 2}, {"name": STEERS, "kernel": 9}, {"note": b"\x80\xff CAN"}]
)
def test_a_bad_graph_is_one_line_and_prints_nothing(
    settings: dict[str, Any], tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "m.onnx").write_bytes(graph(**settings))
    with pytest.raises(ModelError) as refused:
        load_model(f"onnx:{tmp_path / 'm.onnx'}")
    assert str(refused.value).isprintable()
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("content", [[1], {"state_dict": None}, {"state_dict": [1]}, 3, None])
def test_weights_that_are_none(content: object, tmp_path: Path) -> None:
    torch.save(content, tmp_path / "w.pt")
    with pytest.raises(ModelError, match="cannot read weights"):
        read_state(tmp_path / "w.pt")


def test_tensors_without_a_name_are_left_out(tmp_path: Path) -> None:
    torch.save({7: torch.zeros(1), "w": torch.ones(1)}, tmp_path / "w.pt")
    assert list(read_state(tmp_path / "w.pt")) == ["w"]


@pytest.mark.parametrize("batch", [10**9, 10**18])
def test_a_graph_for_absurd_batches_is_refused(batch: int, tmp_path: Path) -> None:
    """Before memory for one is asked for."""
    (tmp_path / "m.onnx").write_bytes(graph(batch=batch))
    with pytest.raises(ModelError, match="images at a time"):
        load_model(f"onnx:{tmp_path / 'm.onnx'}")
