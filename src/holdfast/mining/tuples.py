"""What miners return, and what they are given besides a batch."""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

import torch
from torch import Tensor

from holdfast.errors import DataError


class Triplets(NamedTuple):
    """Indices of anchor, positive and negative, one row each per triplet."""

    anchor: Tensor
    positive: Tensor
    negative: Tensor

    @property
    def indices_tuple(self) -> IndicesTuple:
        """The form of pytorch-metric-learning: (anchors, positives, negatives)."""
        return tuple(self)


class Pairs(NamedTuple):
    """Indices of two images and whether they share a class."""

    anchor: Tensor
    other: Tensor
    same: Tensor

    @property
    def indices_tuple(self) -> IndicesTuple:
        """The form of pytorch-metric-learning: (anchors, positives, anchors, negatives)."""
        return self.anchor[self.same], self.other[self.same], self.anchor[~self.same], self.other[~self.same]


Tuples: TypeAlias = Triplets | Pairs
IndicesTuple: TypeAlias = tuple[Tensor, ...]
"""Triplets, pairs, or what pytorch-metric-learning has for them: three indices of triplets, or two of positive and two
of negative pairs."""


class Recalled(NamedTuple):
    """What a cross-batch memory holds: earlier embeddings, and last the batch that is compared with them.

    Args:
        vectors: of shape (m, dim), without gradients.
        labels: integers of shape (m,).
        images: which image each shows; -1 where that is not known.
    """

    vectors: Tensor
    labels: Tensor
    images: Tensor


def as_tuples(tuples: IndicesTuple, device: torch.device) -> Tuples:
    """Given tuples, which may have the form of pytorch-metric-learning, on a device."""
    if isinstance(tuples, Triplets | Pairs):
        return tuples
    indices = [index.to(device) for index in tuples]
    if len(indices) == 3:
        return Triplets(*indices)
    if len(indices) != 4:
        wanted = "3 tensors (anchors, positives, negatives) or 4 (anchors, positives, anchors, negatives)"
        raise DataError(f"an index tuple has {wanted}, got {len(indices)}")
    positive_anchor, positive, negative_anchor, negative = indices
    same = torch.cat([torch.ones_like(positive), torch.zeros_like(negative)]).bool()
    return Pairs(torch.cat([positive_anchor, negative_anchor]), torch.cat([positive, negative]), same)
