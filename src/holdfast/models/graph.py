"""An embedder as one ONNX graph, in memory."""

from __future__ import annotations

import copy
import dataclasses
import importlib
import io
import warnings
from collections.abc import Mapping
from typing import Any

import torch

from holdfast.errors import ModelError, described
from holdfast.models.embedder import Embedder
from holdfast.version import __version__

INPUT, OUTPUT = "images", "vectors"
OPSETS = range(13, 21)
"""Below 13 there is no int8 per channel; what is above 20, the exporter of torch 2.4 does not know."""

PREFIX = "holdfast."
"""Of our keys among the notes in a graph."""


def build_graph(model: Embedder, opset: int, notes: Mapping[str, str]) -> bytes:
    """One graph from images in [0, 1] to vectors, of any batch size, with the model's own facts noted in it.

    The exporter that traces is used, not the one on `torch.export`: it is in every torch from 2.4 on, takes a second in
    place of ten, folds BatchNorm away in all of them, and leaves no source paths of this machine in the file.

    Args:
        model: on any device and in any mode; a copy is exported.
        opset: version of the ONNX operators.
        notes: more to note in the graph, such as the recipe it was trained with.
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
        raise ModelError(
            f"this model has no ONNX form at opset {opset} ({described(error)}); try a later one"
        ) from error
    return noted(content.getvalue(), {**facts(model), **notes})


def need_onnx() -> None:
    """Say in one line what is missing where the ONNX packages are."""
    try:
        importlib.import_module("onnx")
        importlib.import_module("onnxruntime")
    except ImportError as error:
        raise ModelError("ONNX needs onnx and onnxruntime; install holdfast[onnx]") from error


def facts(model: Embedder) -> dict[str, str]:
    """What a reader of the graph has to know about the model."""
    settings: Any = model._hub_mixin_config or {}
    return {
        "version": __version__,
        "backbone": str(settings.get("backbone", "a module of the user's own")),
        **{key: str(value) for key, value in dataclasses.asdict(model.view).items()},
        "dim": str(model.dim),
        "unit_length": "yes" if model.normalize else "no",
    }


def noted(graph: bytes, notes: Mapping[str, str]) -> bytes:
    """The graph with notes added to its metadata."""
    import onnx

    proto = onnx.load_model_from_string(graph)
    proto.producer_name, proto.producer_version = "holdfast", __version__
    proto.doc_string = f"{INPUT}: float32 in [0, 1], (batch, 3, size, size); {OUTPUT}: (batch, dim)"
    for key, value in notes.items():
        proto.metadata_props.add(key=f"{PREFIX}{key}", value=value)
    return bytes(proto.SerializeToString())
