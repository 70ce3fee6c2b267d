"""Graphs in 8-bit integers, kept only where retrieval does not suffer."""

from __future__ import annotations

import dataclasses
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from holdfast.errors import ModelError, described
from holdfast.files import write_atomic
from holdfast.models.embedder import Embedder
from holdfast.models.export import CHUNK, OPSET, checked_difference
from holdfast.models.graph import INPUT, build_graph, facts, noted
from holdfast.models.load import as_embedder, load_model

MOST_LOST = 1.0
"""Points of R@1 that 8 bits may cost."""


@dataclasses.dataclass(frozen=True)
class Quantised:
    """A graph in 8-bit integers beside the model in torch.

    Args:
        file: where the graph is.
        recall: R@1 in percent, of the model and of the graph.
        calibration_images: images that the ranges of activations were read from.
        opset: version of the ONNX operators.
        size: height and width of the images it takes.
        dim: length of its vectors.
        bytes: size of the file.
    """

    file: Path
    recall: tuple[float, float]
    calibration_images: int
    opset: int
    size: int
    dim: int
    bytes: int

    def plain(self) -> dict[str, Any]:
        """For JSON."""
        before, after = self.recall
        return {**dataclasses.asdict(self), "file": str(self.file), "recall": {"torch": before, "int8": after}}

    def describe(self) -> str:
        """One line."""
        before, after = self.recall
        return (
            f"{self.file} ({self.bytes / 1e6:.2f} MB, {self.size} px to {self.dim} dims): R@1 {before:.1f} in torch, "
            f"{after:.1f} in int8"
        )


def export_int8(
    model: str | nn.Module,
    file: str | Path,
    *,
    images: Tensor,
    score: Callable[[Embedder], float | None],
    opset: int = OPSET,
    notes: Mapping[str, str] | None = None,
) -> Quantised:
    """Write a model as an ONNX graph whose convolutions and products run in 8-bit integers.

    Weights have a scale per channel; the ranges of activations are read from images. The graph in floats is compared
    with torch first. A graph that loses more than one point of R@1 is not written.

    Args:
        model: an embedder, a module from images in [0, 1] to vectors, or what `load_model` takes.
        file: where to; an older file is replaced in one move.
        images: to read the ranges from; a hundred or more of those it will see, float in [0, 1], of the model's size.
        score: R@1 of a model in percent; asked for the model and for its graph.
        opset: version of the ONNX operators.
        notes: more to note in the graph's metadata, such as the recipe.
    """
    embedder = as_embedder(model)
    noting = {**facts(embedder), **(notes or {}), "precision": "int8"}
    floats = build_graph(embedder, opset, {})
    checked_difference(embedder, floats, images)
    with tempfile.TemporaryDirectory(prefix="holdfast-") as place:
        graph = noted(_quantise(floats, images, Path(place)), noting)
        trial = Path(place) / "trial.onnx"
        trial.write_bytes(graph)
        before, after = score(embedder), score(load_model(f"onnx:{trial}"))
    if before is None or after is None:
        raise ModelError("R@1 is undefined for these images, so int8 cannot be judged; give others with --data")
    if after < before - MOST_LOST:
        raise ModelError(
            f"int8 takes R@1 from {before:.1f} to {after:.1f}, more than {MOST_LOST:g} point; nothing was written. "
            "Export without int8"
        )
    write_atomic(Path(file), graph)
    return Quantised(Path(file), (before, after), len(images), opset, embedder.size, embedder.dim, len(graph))


def _quantise(graph: bytes, images: Tensor, place: Path) -> bytes:
    """The graph in integers; onnxruntime works on files, which are left in `place`."""
    from onnxruntime import quantization
    from onnxruntime.quantization.shape_inference import quant_pre_process

    floats, tidy, integers = (str(place / f"{name}.onnx") for name in ("floats", "tidy", "integers"))
    Path(floats).write_bytes(graph)
    batches = iter([{INPUT: some.float().cpu().numpy()} for some in torch.split(images, CHUNK)])

    class Reader(quantization.CalibrationDataReader):  # type: ignore[misc]  # onnxruntime has no types
        def get_next(self) -> dict[str, Any] | None:
            return next(batches, None)

    try:
        quant_pre_process(floats, tidy)
        quantization.quantize_static(
            tidy,
            integers,
            Reader(),
            quant_format=quantization.QuantFormat.QDQ,
            per_channel=True,
            activation_type=quantization.QuantType.QUInt8,
            weight_type=quantization.QuantType.QInt8,
        )
    except Exception as error:  # onnxruntime has no common exception type
        raise ModelError(f"this graph cannot be quantised ({described(error)}); export without int8") from error
    return Path(integers).read_bytes()
