"""Exporting an embedder to ONNX, compared with torch before anything is written."""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from holdfast import seeds
from holdfast.errors import ModelError
from holdfast.files import write_atomic
from holdfast.models.embedder import Embedder
from holdfast.models.graph import INPUT, build_graph
from holdfast.models.load import as_embedder

TOLERANCE = 1e-5
OPSET = 17
RANDOM_IMAGES = 16
CHUNK = 64


@dataclasses.dataclass(frozen=True)
class Parity:
    """An exported graph beside the model in torch.

    Args:
        file: where the graph is.
        difference: largest difference of a coordinate; of vectors that are not of unit length, as a share of the
            longest one.
        random_images: random images that were compared.
        real_images: images of the caller that were compared.
        opset: version of the ONNX operators.
        size: height and width of the images it takes.
        dim: length of its vectors.
        bytes: size of the file.
    """

    file: Path
    difference: float
    random_images: int
    real_images: int
    opset: int
    size: int
    dim: int
    bytes: int

    def plain(self) -> dict[str, Any]:
        """For JSON."""
        return {**dataclasses.asdict(self), "file": str(self.file)}

    def describe(self) -> str:
        """One line."""
        real = f" and {self.real_images} real" if self.real_images else ""
        return (
            f"{self.file} ({self.bytes / 1e6:.2f} MB, {self.size} px to {self.dim} dims): differs from torch by at "
            f"most {self.difference:.1e} on {self.random_images} random{real} images"
        )


def export_onnx(
    model: str | nn.Module,
    file: str | Path,
    *,
    images: Tensor | None = None,
    opset: int = OPSET,
    notes: Mapping[str, str] | None = None,
) -> Parity:
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
    graph = build_graph(embedder, opset, notes or {})
    difference = checked_difference(embedder, graph, images)
    write_atomic(Path(file), graph)
    return Parity(
        file=Path(file),
        difference=difference,
        random_images=RANDOM_IMAGES,
        real_images=0 if images is None else len(images),
        opset=opset,
        size=embedder.size,
        dim=embedder.dim,
        bytes=len(graph),
    )


def checked_difference(model: Embedder, graph: bytes, images: Tensor | None = None) -> float:
    """The largest difference between a graph and its model; one above 1e-5 is refused."""
    shape = (RANDOM_IMAGES, 3, model.size, model.size)
    shown = [torch.rand(shape, generator=seeds.generator(0, "export")), *([] if images is None else [images])]
    difference = max(_difference(model, graph, some) for some in shown)
    if not difference <= TOLERANCE:  # NaN too
        raise ModelError(
            f"the exported graph differs from torch by {difference:.1e}, more than {TOLERANCE:.0e}; nothing was "
            "written. Does the model draw at random, or depend on the rest of the batch?"
        )
    return difference


@torch.no_grad()
def _difference(model: Embedder, graph: bytes, images: Tensor) -> float:
    """Of some images, shown in chunks of several lengths."""
    from onnxruntime import InferenceSession

    session = InferenceSession(graph, providers=["CPUExecutionProvider"])
    plain = copy.deepcopy(model).cpu().float().eval()
    worst, longest = 0.0, 1.0
    for some in (images[:1], *torch.split(images[1:], CHUNK)):
        wanted = plain(some.float().cpu())
        found = torch.from_numpy(session.run(None, {INPUT: some.float().cpu().contiguous().numpy()})[0])
        worst = max(worst, float((found - wanted).abs().max()))
        longest = max(longest, float(wanted.norm(dim=1).max()))
    return worst / longest
