"""Labels of losses that hold something per class."""

from __future__ import annotations

from torch import Tensor

from holdfast.errors import DataError


def require_class_labels(labels: Tensor, classes: int) -> None:
    """Refuse labels that a loss with this many classes has no entry for."""
    if labels.numel() == 0:
        return
    lowest, highest = (int(value) for value in labels.aminmax())
    if lowest < 0 or highest >= classes:
        wrong = lowest if lowest < 0 else highest
        raise DataError(
            f"label {wrong} is outside this loss's {classes} classes; number labels from 0 to {classes - 1}"
        )
