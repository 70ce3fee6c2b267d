"""Exporting an embedder to ONNX, in floats or 8-bit integers, compared with torch before anything is written."""

from __future__ import annotations

import copy
import dataclasses
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from holdfast import seeds
from holdfast.errors import ModelError, described
from holdfast.files import write_atomic
from holdfast.models.embedder import Embedder
from holdfast.models.load import as_embedder, load_model
from holdfast.models.onnx_file import INPUT, build_graph, noted

TOLERANCE = 1e-5
OPSET = 17
RANDOM_IMAGES = 16
CHUNK = 64
MOST_LOST = 1.0
"""Points of R@1 that 8 bits may cost."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Exported:
    """A graph that was written, beside the model in torch.

    Args:
        file: where it is.
        opset: version of the ONNX operators.
        size: height and width of the images it takes.
        dim: length of its vectors.
        bytes: size of the file.
        difference: largest difference of a coordinate of the graph in floats; of vectors that are not of unit length,
            as a fraction of the longest one.
        random_images: random images that were compared.
        real_images: images of the caller that were compared; of a graph in 8-bit integers, the ranges of activations
            were read from them, too.
        recall: of a graph in 8-bit integers, R@1 in percent, of the model (`torch`) and of the graph (`int8`).
    """

    file: Path
    opset: int
    size: int
    dim: int
    bytes: int
    difference: float
    random_images: int = RANDOM_IMAGES
    real_images: int = 0
    recall: dict[str, float] | None = None

    def plain(self) -> dict[str, Any]:
        """For JSON."""
        return {**dataclasses.asdict(self), "file": str(self.file)}

    def __str__(self) -> str:
        real = f" and {self.real_images} real" if self.real_images else ""
        shown = f"differs from torch by at most {self.difference:.1e} on {self.random_images} random{real} images"
        if self.recall is not None:
            shown = f"R@1 {self.recall['torch']:.1f} in torch, {self.recall['int8']:.1f} in int8"
        return f"{self.file} ({self.bytes / 1e6:.2f} MB, {self.size} px to {self.dim} dims): {shown}"


def export_onnx(
    model: str | nn.Module,
    file: str | Path,
    *,
    images: Tensor | None = None,
    opset: int = OPSET,
    notes: Mapping[str, str] | None = None,
) -> Exported:
    """Write a model as one ONNX graph: normalisation, network and unit length, for batches of any size.

    The graph is run by onnxruntime and compared with torch first; one that differs by more than 1e-5 is not written.
    Of a model with several BatchNorm sets the clean one is exported.

    Args:
        model: an embedder, a module from images in [0, 1] to vectors, or what `load_model` takes.
        file: where to; an older file is replaced in one move.
        images: real images to compare on, beside random ones; float in [0, 1], of the model's size.
        opset: version of the ONNX operators.
        notes: more to note in the graph's metadata, such as the recipe.
    """
    embedder = as_embedder(model)
    graph = build_graph(embedder, opset)
    difference = checked_difference(embedder, graph, images)
    real = 0 if images is None else len(images)
    graph = noted(graph, embedder, notes or {})
    return _written(file, graph, embedder, opset, difference=difference, real_images=real)


def _written(file: str | Path, graph: bytes, model: Embedder, opset: int, **found: Any) -> Exported:
    write_atomic(Path(file), graph)
    return Exported(file=Path(file), opset=opset, size=model.size, dim=model.dim, bytes=len(graph), **found)


@torch.no_grad()
def checked_difference(model: Embedder, graph: bytes, images: Tensor | None = None) -> float:
    """The largest difference between a graph and its model, on chunks of several lengths; one above 1e-5 is refused."""
    from onnxruntime import InferenceSession

    session = InferenceSession(graph, providers=["CPUExecutionProvider"])
    plain = copy.deepcopy(model).cpu().float().eval()
    shape, generator = (RANDOM_IMAGES, 3, model.size, model.size), seeds.generator(0, "export")
    random = torch.rand(shape, generator=generator, dtype=torch.float32)
    real = () if images is None else torch.split(images.float().cpu(), CHUNK)
    worst, longest = 0.0, 1.0
    for some in (random[:1], random[1:], *real):
        wanted = plain(some)
        found = torch.from_numpy(session.run(None, {INPUT: some.contiguous().numpy()})[0])
        worst = max(worst, float((found - wanted).abs().max()))
        longest = max(longest, float(wanted.norm(dim=1).max()))
    difference = worst / longest
    if not difference <= TOLERANCE:  # NaN too
        told = f"the graph differs from torch by {difference:.1e}, more than {TOLERANCE:.0e}; nothing was written"
        raise ModelError(f"{told}. Does the model draw at random, or depend on the rest of the batch?")
    return difference


def export_int8(
    model: str | nn.Module,
    file: str | Path,
    *,
    images: Tensor,
    score: Callable[[Embedder], float | None],
    opset: int = OPSET,
    notes: Mapping[str, str] | None = None,
) -> Exported:
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
    floats = build_graph(embedder, opset)
    difference = checked_difference(embedder, floats, images)
    with tempfile.TemporaryDirectory(prefix="holdfast-") as place:
        graph = noted(_quantise(floats, images, Path(place)), embedder, {**(notes or {}), "precision": "int8"})
        trial = Path(place) / "trial.onnx"
        trial.write_bytes(graph)
        before, after = score(embedder), score(load_model(f"onnx:{trial}"))
    if before is None or after is None:
        raise ModelError("R@1 is undefined for these images, so int8 cannot be judged; give others with --data")
    if after < before - MOST_LOST:
        lost = f"int8 takes R@1 from {before:.1f} to {after:.1f}, more than {MOST_LOST:g} point"
        raise ModelError(f"{lost}; nothing was written. Export without int8")
    recall = {"torch": before, "int8": after}
    return _written(file, graph, embedder, opset, difference=difference, real_images=len(images), recall=recall)


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
