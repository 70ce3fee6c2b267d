"""What miners return: index tensors of the tuples a loss learns on."""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

from torch import Tensor


class Triplets(NamedTuple):
    """Indices of anchor, positive and negative, one row each per triplet."""

    anchor: Tensor
    positive: Tensor
    negative: Tensor


class Pairs(NamedTuple):
    """Indices of two images and whether they share a class."""

    anchor: Tensor
    other: Tensor
    same: Tensor


Tuples: TypeAlias = Triplets | Pairs
