"""What the weights of a triplet depend on."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from holdfast.mining import Pairs, Triplets
from holdfast.sphere import Mask, distance, safe_sqrt

EPSILON = 0.1
"""How far the anchor's other pairs may be from being comparable and still count."""


class Others(NamedTuple):
    """The anchor's similarities to the rest of the batch, and which of them count, each of shape (t, n).

    Args:
        similarity: to every image.
        positive: the set P.
        negative: the set N.
    """

    similarity: Tensor
    positive: Mask
    negative: Mask


class TripletGeometry(NamedTuple):
    """Triplets as their weights see them; all but `others` of shape (t,).

    Args:
        near: s_ap.
        far: s_an.
        near_distance: D_ap.
        far_distance: D_an.
        others: without columns where the pair weight does not ask for it.
    """

    near: Tensor
    far: Tensor
    near_distance: Tensor
    far_distance: Tensor
    others: Others

    @classmethod
    def at(cls, near: Tensor, far: Tensor, others: Others | None = None) -> TripletGeometry:
        """Triplets of unit vectors with these similarities."""
        return cls(near, far, safe_sqrt(2 - 2 * near), safe_sqrt(2 - 2 * far), others or nothing(near))


def geometry(anchor: Tensor, positive: Tensor, negative: Tensor, others: Others | None = None) -> TripletGeometry:
    """Similarities and distances of triplets, given as three matrices of vectors."""
    near, far = (anchor * positive).sum(1), (anchor * negative).sum(1)
    return TripletGeometry(near, far, distance(anchor, positive), distance(anchor, negative), others or nothing(near))


def nothing(near: Tensor) -> Others:
    """No other similarities."""
    none = near.new_zeros(len(near), 0)
    return Others(none, none.bool(), none.bool())


def others_of(triplets: Triplets, similarity: Tensor, positive: Mask, negative: Mask) -> Others:
    """The anchor's other pairs that compare with a triplet's own.

    P keeps positives with `R_ap < max(s_an, R_an) + 0.1`, N keeps negatives with `R_an > min(s_ap, R_ap) - 0.1`; R are
    the anchor's similarities without the two that form the triplet.

    Args:
        similarity: of the batch, n × n, with its positive and negative pairs.
    """
    rows = similarity[triplets.anchor]
    near = rows.gather(1, triplets.positive[:, None])
    far = rows.gather(1, triplets.negative[:, None])
    other_positive = positive[triplets.anchor].scatter(1, triplets.positive[:, None], False)
    other_negative = negative[triplets.anchor].scatter(1, triplets.negative[:, None], False)
    highest = torch.maximum(far, rows.masked_fill(~other_negative, -torch.inf).amax(1, keepdim=True))
    lowest = torch.minimum(near, rows.masked_fill(~other_positive, torch.inf).amin(1, keepdim=True))
    return Others(rows, other_positive & (rows < highest + EPSILON), other_negative & (rows > lowest - EPSILON))


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
