"""What a run cost, from its log and the header of its weights."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

from holdfast.errors import HoldfastError
from holdfast.files import inside
from holdfast.report.figures import finite
from holdfast.report.found import Found
from holdfast.report.sections.recipe import block

HEADER_LIMIT = 100_000_000
"""What the safetensors format allows a header to be, in bytes."""
COUNTED_APART = ("running_mean", "running_var", "num_batches_tracked")
"""Tensors of a BatchNorm layer that are no parameters."""


def batch_size(found: Found) -> int | None:
    """Images per step."""
    batch = block(found.recipe, "batch")
    classes, each = finite(batch.get("classes")), finite(batch.get("per_class"))
    size = None if classes is None or each is None else finite(classes * each)
    return None if size is None else int(size)


def training_seconds(found: Found) -> float | None:
    """Time spent in training steps: what the log counts, without evaluations and starting."""
    batch, total, before = batch_size(found), 0.0, 0.0
    if batch is None:
        return None
    for line in _steps(found):
        speed = finite(line.get("images_per_second"))
        if speed:
            total += (line["step"] - before) * batch / speed
            before = line["step"]
    return finite(total) or None


def passes_per_step(found: Found) -> float | None:
    """How often a step ran the model forward and back, on average."""
    total, before = 0.0, 0.0
    for line in _steps(found):
        passes = finite(line.get("passes"))
        if passes is not None:
            total += (line["step"] - before) * passes
            before = line["step"]
    return finite(total / before) if before else None


def images_seen(found: Found) -> float | None:
    """Images the run learnt from, repeats counted."""
    batch = batch_size(found)
    steps = max((line["step"] for line in _steps(found)), default=0.0)
    return finite(batch * steps) if batch and steps else None


def parameters(folder: Path) -> int | None:
    """Weights of the packaged model, auxiliary BatchNorm sets left out.

    Args:
        folder: of the run.
    """
    try:
        with inside(folder, folder / "model" / "model.safetensors").open("rb") as file:
            length = int.from_bytes(file.read(8), "little")
            if length > HEADER_LIMIT:
                return None
            header = json.loads(file.read(length))
        total = sum(
            int(math.prod(tensor["shape"]))
            for name, tensor in header.items()
            if name != "__metadata__" and not name.startswith("bank.") and not name.endswith(COUNTED_APART)
        )
        return None if finite(total) is None else total
    except (HoldfastError, OSError, ValueError, ArithmeticError, TypeError, KeyError, AttributeError, RecursionError):
        return None


def _steps(found: Found) -> list[dict[str, Any]]:
    """The lines of the log that belong to a step, its number as a float: whole numbers do not overflow quietly."""
    return [{**line, "step": step} for line in found.log if (step := finite(line.get("step"))) is not None]
