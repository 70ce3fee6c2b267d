"""Models that only exist as an ONNX file: they embed, but give no gradients."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, get_args

import torch
from torch import Tensor, nn

from holdfast.errors import ModelError
from holdfast.files import kind_of
from holdfast.models.graph import PREFIX, need_onnx
from holdfast.models.untrusted import LARGEST, check_graph
from holdfast.view import Fit, Interpolation

FATAL = 4
"""onnxruntime's warnings show names from the file as they are, and these could steer a terminal."""


class OnnxModule(nn.Module):
    """An ONNX graph from images in [0, 1] to vectors, run on the CPU.

    Args:
        file: the graph; one input of shape (B, 3, H, W), one output of shape (B, D).
    """

    differentiable = False

    def __init__(self, file: Path) -> None:
        super().__init__()
        need_onnx()
        import onnxruntime

        if kind_of(file) != "file":
            raise ModelError(f"no ONNX file at {file}")
        check_graph(file)
        options = onnxruntime.SessionOptions()
        options.log_severity_level = FATAL
        try:
            # A second attempt, on other devices, would print what went wrong at the first, in words of the file.
            self._session = onnxruntime.InferenceSession(
                str(file), options, providers=["CPUExecutionProvider"], enable_fallback=0
            )
            inputs, notes = self._session.get_inputs(), self._session.get_modelmeta().custom_metadata_map
        except Exception as error:  # onnxruntime has a dozen exception types; each means the file is no usable graph
            raise ModelError(f"cannot read {file}: {' '.join(str(error).split())[:160]}") from error
        if len(inputs) != 1 or len(inputs[0].shape) != 4:
            raise ModelError(f"{file} must take one input of shape (B, 3, H, W)")
        self._input = inputs[0].name
        side = inputs[0].shape[-1]
        self.size: int | None = side if isinstance(side, int) else None
        if self.size is not None and not 1 <= self.size <= LARGEST["size"]:
            raise ModelError(f"{file} takes images of {self.size} px, which no model does")
        self.canvas = _whole(notes.get(f"{PREFIX}canvas", ""), self.size or LARGEST["size"])
        """Size that images are first resized to, where `holdfast export` noted it."""
        # Before exports noted more than the canvas, every image was squashed.
        self.fit: Fit = _word(notes, "fit", get_args(Fit), "squash" if f"{PREFIX}canvas" in notes else "crop")
        self.interpolation: Interpolation = _word(notes, "interpolation", get_args(Interpolation), "bilinear")
        self.unit_length = notes.get(f"{PREFIX}unit_length") != "no"
        # What the graph computes is not in any tensor; audits identify a model by its tensors.
        digest = hashlib.sha256(file.read_bytes()).digest()
        self.register_buffer("digest", torch.frombuffer(bytearray(digest), dtype=torch.uint8).clone())

    def forward(self, images: Tensor) -> Tensor:
        """Vectors of images, without a graph."""
        found = self._session.run(None, {self._input: images.detach().cpu().float().contiguous().numpy()})[0]
        return torch.from_numpy(found).to(images.device)


def _whole(text: str, least: int) -> int | None:
    """A canvas as a graph notes it, if it can be one."""
    good = text.isascii() and text.isdigit() and len(text) < 6
    return int(text) if good and least <= int(text) <= LARGEST["canvas"] else None


def _word(notes: Mapping[str, str], key: str, words: tuple[str, ...], otherwise: str) -> Any:
    """A note of a graph, if it is one of the words that it can be."""
    word = notes.get(f"{PREFIX}{key}", otherwise)
    return word if word in words else otherwise
