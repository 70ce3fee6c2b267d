"""What a loss on pairs or triplets looks at: a batch, what it is compared with, and the tuples to learn on."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from holdfast.mining import Pairs, Recalled, Triplets, Tuples
from holdfast.mining.batch import relations
from holdfast.sphere import Mask


class Comparison(NamedTuple):
    """A batch with the tuples to learn on.

    Args:
        embeddings: the anchors.
        labels: their classes, or a relevance matrix.
        recalled: a memory that they are compared with; themselves when left out.
        tuples: mined or given; every pair or triplet when left out.
        beside: more of them, given to a loss with a memory.
        given: whether the caller gave any, which may repeat a pair.
        similarities: the matrix of all pairs, where it is known already.
        chosen: positive and negative pairs to learn on, in place of tuples.
    """

    embeddings: Tensor
    labels: Tensor
    recalled: Recalled | None = None
    tuples: Tuples | None = None
    beside: Tuples | None = None
    given: bool = False
    similarities: Tensor | None = None
    chosen: tuple[Mask, Mask] | None = None

    @property
    def others(self) -> Tensor:
        """The vectors that anchors are compared with."""
        return self.embeddings if self.recalled is None else self.recalled.vectors

    @property
    def shape(self) -> tuple[int, int]:
        """Of the matrix of all pairs."""
        return len(self.embeddings), len(self.others)

    @property
    def triplets(self) -> Triplets | None:
        """The triplets to learn on, where there is a list of them."""
        if self.beside is None or not isinstance(self.tuples, Triplets):
            return self.tuples if isinstance(self.tuples, Triplets) else None
        more = self.beside if isinstance(self.beside, Triplets) else joined(self.beside, len(self.embeddings))
        return Triplets(*(torch.cat(index) for index in zip(self.tuples, more, strict=True)))

    def masks(self, dtype: torch.dtype = torch.bool) -> tuple[Tensor, Tensor]:
        """Positive and negative pairs to learn on as masks, or as numbers that say how often each counts."""
        if self.chosen is not None:
            return self.chosen
        if self.tuples is None:
            pos, neg = relations(self.embeddings, self.labels, recalled=self.recalled)
            pos, neg = (pos, neg) if dtype == torch.bool else (pos.to(dtype), neg.to(dtype))
        else:
            pos, neg = masks_of(self.tuples, self.shape, dtype)
        if self.beside is None:
            return pos, neg
        more_pos, more_neg = masks_of(self.beside, self.shape, dtype)
        return pos + more_pos, neg + more_neg


def masks_of(tuples: Tuples, shape: tuple[int, int], dtype: torch.dtype = torch.bool) -> tuple[Tensor, Tensor]:
    """Positive and negative pairs of tuples as masks, or as numbers that say how often each occurs."""
    pos = torch.zeros(shape, dtype=dtype, device=tuples.anchor.device)
    neg = torch.zeros_like(pos)
    if isinstance(tuples, Triplets):
        once = torch.ones_like(tuples.anchor, dtype=dtype)  # a plain True would be copied from the host
        entries = (pos, tuples.positive, once), (neg, tuples.negative, once)
    else:
        entries = (pos, tuples.other, tuples.same.to(dtype)), (neg, tuples.other, (~tuples.same).to(dtype))
    for matrix, column, number in entries:
        matrix.index_put_((tuples.anchor, column), number, accumulate=dtype != torch.bool)
    return pos, neg


def joined(pairs: Pairs, size: int) -> Triplets:
    """Every triplet that joins a positive and a negative pair of one anchor, in a batch of `size` images."""
    anchor, positive = pairs.anchor[pairs.same], pairs.other[pairs.same]
    far_anchor, negative = pairs.anchor[~pairs.same], pairs.other[~pairs.same]
    negative = negative[far_anchor.argsort(stable=True)]
    count = torch.bincount(far_anchor, minlength=size)
    first = count.cumsum(0) - count
    repeats = count[anchor]
    row = torch.repeat_interleave(repeats)
    within = torch.arange(len(row), device=row.device) - (repeats.cumsum(0) - repeats)[row]
    return Triplets(anchor[row], positive[row], negative[first[anchor[row]] + within])


def shifted(tuples: Tuples, offset: int) -> Tuples:
    """Tuples of a batch as tuples of a batch and a memory in which it comes after `offset` others."""
    if isinstance(tuples, Triplets):
        return Triplets(tuples.anchor, tuples.positive + offset, tuples.negative + offset)
    return Pairs(tuples.anchor, tuples.other + offset, tuples.same)
