"""An embedder as one ONNX graph, and models that only exist as such a file: they embed, but give no gradients."""

from __future__ import annotations

import copy
import dataclasses
import hashlib
import importlib
import io
import warnings
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, get_args

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from holdfast.errors import ModelError, described, reason, shown
from holdfast.files import kind_of
from holdfast.models.embedder import Embedder
from holdfast.models.preprocessing import LARGEST
from holdfast.version import __version__
from holdfast.view import Fit, Interpolation

INPUT, OUTPUT = "images", "vectors"
OPSETS = range(13, 21)
"""Below 13 there is no int8 per channel; what is above 20, the exporter of torch 2.4 does not know."""

PREFIX = "holdfast."
"""Of our keys among the notes in a graph."""


def build_graph(model: Embedder, opset: int) -> bytes:
    """One graph from images in [0, 1] to vectors, of any batch size.

    The exporter that traces is used, not the one on `torch.export`: it is in every torch from 2.4 on, takes a second in
    place of ten, folds BatchNorm away in all of them, and leaves no source paths of this machine in the file.

    Args:
        model: on any device and in any mode; a copy is exported.
        opset: version of the ONNX operators.
    """
    if opset not in OPSETS:
        raise ModelError(f"opset must be {OPSETS[0]} to {OPSETS[-1]}, got {opset}")
    if not model.differentiable:
        raise ModelError("this model is an ONNX graph already; copy its file")
    need_onnx()
    content = io.BytesIO()
    plain = copy.deepcopy(model).cpu().float().eval()
    batch = {INPUT: {0: "batch"}, OUTPUT: {0: "batch"}}
    try:
        with warnings.catch_warnings(), torch.no_grad():
            warnings.simplefilter("ignore")  # that the exporter is the older one, and that sizes are constants
            torch.onnx.export(
                plain,
                (torch.zeros(2, 3, model.size, model.size),),
                content,  # type: ignore[arg-type]  # the newer exporter takes paths only
                input_names=[INPUT],
                output_names=[OUTPUT],
                dynamic_axes=batch,
                opset_version=opset,
                dynamo=False,
            )
    except Exception as error:  # the exporter has no common exception type; each means an operator ONNX lacks
        raise ModelError(f"there is no ONNX form at opset {opset} ({described(error)}); try a later one") from error
    return content.getvalue()


def need_onnx() -> None:
    """Say in one line what is missing where the ONNX packages are."""
    try:
        importlib.import_module("onnx")
        importlib.import_module("onnxruntime")
    except ImportError as error:
        raise ModelError("ONNX needs onnx and onnxruntime; install holdfast[onnx]") from error


def noted(graph: bytes, model: Embedder, notes: Mapping[str, str]) -> bytes:
    """The graph with what its readers have to know about the model, and more notes, added to its metadata."""
    import onnx

    settings: Any = model._hub_mixin_config or {}
    facts = {
        "version": __version__,
        "backbone": str(settings.get("backbone", "a module of the user's own")),
        **{key: str(value) for key, value in dataclasses.asdict(model.view).items()},
        "dim": str(model.dim),
        "unit_length": "yes" if model.normalize else "no",
    }
    proto = onnx.load_model_from_string(graph)
    proto.producer_name, proto.producer_version = "holdfast", __version__
    proto.doc_string = f"{INPUT}: float32 in [0, 1], (batch, 3, size, size); {OUTPUT}: (batch, dim)"
    for key, value in {**facts, **notes}.items():
        proto.metadata_props.add(key=f"{PREFIX}{key}", value=value)
    return bytes(proto.SerializeToString())


LARGEST_BATCH = 4096
"""Of a graph for batches of one size; a last one is filled up to it."""

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
            raise ModelError(f"cannot read {file}: {reason(error)}") from error
        if len(inputs) != 1 or len(inputs[0].shape) != 4:
            raise ModelError(f"{file} must take one input of shape (B, 3, H, W)")
        self._input = inputs[0].name
        batch = inputs[0].shape[0]
        self._batch: int | None = batch if isinstance(batch, int) and batch > 0 else None
        if self._batch is not None and self._batch > LARGEST_BATCH:
            raise ModelError(f"{file} takes {self._batch} images at a time, which no model does")
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
        """Vectors of images, without a graph; a file for batches of one size is run on as many, the last filled up."""
        given = images.detach().cpu().float().contiguous()
        vectors = [self._run(part) for part in torch.split(given, self._batch or max(1, len(given)))]
        return torch.cat(vectors).to(images.device)

    def _run(self, images: Tensor) -> Tensor:
        filled = images if self._batch is None else F.pad(images, (0, 0) * 3 + (0, self._batch - len(images)))
        return torch.from_numpy(self._session.run(None, {self._input: filled.numpy()})[0])[: len(images)]


def _whole(text: str, least: int) -> int | None:
    """A canvas as a graph notes it, if it can be one."""
    good = text.isascii() and text.isdigit() and len(text) < 6
    return int(text) if good and least <= int(text) <= LARGEST["canvas"] else None


def _word(notes: Mapping[str, str], key: str, words: tuple[str, ...], otherwise: str) -> Any:
    """A note of a graph, if it is one of the words that it can be."""
    word = notes.get(f"{PREFIX}{key}", otherwise)
    return word if word in words else otherwise


def check_graph(file: Path) -> None:
    """Refuse an ONNX file that keeps tensors outside its own folder, whatever the runtime would make of it."""
    import onnx

    try:
        proto = onnx.load(file, load_external_data=False)
    except Exception as error:  # protobuf has several exception types; each means that the file is no graph
        raise ModelError(f"cannot read {file}: {reason(error)}") from error
    folder = file.resolve().parent
    for place in _outside_tensors(proto):
        if not (folder / place).resolve().is_relative_to(folder):
            raise ModelError(f"{file} reads its tensors from {shown(place)}, outside its folder; it is refused")


def _outside_tensors(proto: Any) -> Iterator[str]:
    """Locations of all tensors that are kept in other files, in subgraphs and functions too."""
    waiting = [proto]
    while waiting:
        message = waiting.pop()
        if message.DESCRIPTOR.name == "TensorProto":
            yield from (entry.value for entry in message.external_data if entry.key == "location")
            continue
        for field, value in message.ListFields():
            if field.message_type is not None:
                waiting.extend([value] if hasattr(value, "ListFields") else value)
