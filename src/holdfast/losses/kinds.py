"""Which pairs of a block of rows are positive and which negative, as zeros and ones."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import torch
from torch import Tensor

from holdfast.mining.batch import relations, require_labels
from holdfast.sphere import Mask

Kinds: TypeAlias = Callable[[slice], tuple[Tensor, Tensor]]
"""Rows → their positive and their negative pairs, in numbers: a product is far cheaper than a choice by booleans."""


def kinds_by_masks(positive: Mask, negative: Mask, dtype: torch.dtype) -> Kinds:
    """Those of given n × n masks."""
    return lambda rows: (positive[rows].to(dtype), negative[rows].to(dtype))


def kinds_by_labels(embeddings: Tensor, labels: Tensor, dtype: torch.dtype) -> Kinds:
    """Those of a batch; nothing n × n is kept."""
    if labels.dtype == torch.bool:
        return kinds_by_masks(*relations(embeddings, labels), dtype)
    require_labels(embeddings, labels)
    codes = _codes(labels).to(dtype)

    def kinds(rows: slice) -> tuple[Tensor, Tensor]:
        same = codes.new_empty(len(codes[rows]), len(codes))
        torch.eq(codes[rows, None], codes[None, :], out=same)
        negative = 1 - same
        same.diagonal(rows.start or 0).zero_()
        return same, negative

    return kinds


def _codes(labels: Tensor) -> Tensor:
    """Labels counted from zero: any label fits 64 bits only, but their number fits a float."""
    ordered, order = labels.sort()
    steps = torch.zeros_like(order)
    steps[1:] = ordered[1:] != ordered[:-1]
    return torch.empty_like(order).scatter_(0, order, steps.cumsum(0))
