"""What a run cost, from its log and the header of its weights."""

from __future__ import annotations

import json
import math
from pathlib import Path

from holdfast import run_files
from holdfast.errors import HoldfastError
from holdfast.files import inside
from holdfast.report.found import Found
from holdfast.run_files import batch_size, finite, steps

HEADER_LIMIT = 100_000_000
"""What the safetensors format allows a header to be, in bytes."""
COUNTED_APART = ("running_mean", "running_var", "num_batches_tracked")
"""Tensors of a BatchNorm layer that are no parameters."""


def training_seconds(found: Found) -> float | None:
    """Time spent in training steps."""
    return run_files.training_seconds(found.log, batch_size(found.recipe))


def passes_per_step(found: Found) -> float | None:
    """How often a step ran the model forward and back, on average."""
    return run_files.passes_per_step(found.log)


def images_seen(found: Found) -> float | None:
    """Images the run learnt from, repeats counted."""
    batch = batch_size(found.recipe)
    last = max((step for step, _ in steps(found.log)), default=0.0)
    return finite(batch * last) if batch and last else None


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
