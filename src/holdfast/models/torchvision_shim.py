"""Import torchvision where its compiled operators cannot load.

The torchvision wheel is built against a CUDA torch. On a machine whose torch is a CPU build its operator library does
not load, and the import fails at `operator torchvision::nms does not exist`. holdfast (and timm, which imports
torchvision) only needs the Python part, so the two missing operator schemas are declared first, in that case alone.
Calling such an operator would still raise; nothing here does.
"""

from __future__ import annotations

import importlib
from typing import Any

import torch

_SCHEMAS = {
    "nms": "(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
    "qnms": "(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
}
_libraries: list[Any] = []  # a schema lives as long as the library object that defined it


def ensure_torchvision() -> None:
    """Make `import torchvision` (and so `import timm`) work; call it before either."""
    try:
        importlib.import_module("torchvision")
    except RuntimeError as error:
        if "torchvision::" not in str(error):
            raise
        library: Any = torch.library.Library("torchvision", "DEF")  # type: ignore[no-untyped-call]
        for name, schema in _SCHEMAS.items():
            library.define(name + schema)
        _libraries.append(library)
        importlib.import_module("torchvision")
