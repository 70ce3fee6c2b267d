"""What the weights of a triplet depend on."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from holdfast.mining import Triplets
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
        s_ap: similarity of anchor and positive.
        s_an: similarity of anchor and negative.
        d_ap: distance of anchor and positive.
        d_an: distance of anchor and negative.
        others: without columns where the pair weight does not ask for it.
    """

    s_ap: Tensor
    s_an: Tensor
    d_ap: Tensor
    d_an: Tensor
    others: Others

    @classmethod
    def at(cls, s_ap: Tensor, s_an: Tensor, others: Others | None = None) -> TripletGeometry:
        """Triplets of unit vectors with these similarities."""
        return cls(s_ap, s_an, safe_sqrt(2 - 2 * s_ap), safe_sqrt(2 - 2 * s_an), others or nothing(s_ap))


def geometry(anchor: Tensor, positive: Tensor, negative: Tensor, others: Others | None = None) -> TripletGeometry:
    """Similarities and distances of triplets, given as three matrices of vectors."""
    s_ap, s_an = (anchor * positive).sum(1), (anchor * negative).sum(1)
    return TripletGeometry(s_ap, s_an, distance(anchor, positive), distance(anchor, negative), others or nothing(s_ap))


def nothing(s_ap: Tensor) -> Others:
    """No other similarities."""
    none = s_ap.new_zeros(len(s_ap), 0)
    return Others(none, none.bool(), none.bool())


def others_of(triplets: Triplets, similarity: Tensor, positive: Mask, negative: Mask) -> Others:
    """The anchor's other pairs that compare with a triplet's own.

    P keeps positives with `R_ap < max(s_an, R_an) + 0.1`, N keeps negatives with `R_an > min(s_ap, R_ap) - 0.1`; R are
    the anchor's similarities without the two that form the triplet.

    Args:
        similarity: of the batch, n × n, with its positive and negative pairs.
    """
    rows = similarity[triplets.anchor]
    s_ap = rows.gather(1, triplets.positive[:, None])
    s_an = rows.gather(1, triplets.negative[:, None])
    other_positive = positive[triplets.anchor].scatter(1, triplets.positive[:, None], False)
    other_negative = negative[triplets.anchor].scatter(1, triplets.negative[:, None], False)
    highest = torch.maximum(s_an, rows.masked_fill(~other_negative, -torch.inf).amax(1, keepdim=True))
    lowest = torch.minimum(s_ap, rows.masked_fill(~other_positive, torch.inf).amin(1, keepdim=True))
    return Others(rows, other_positive & (rows < highest + EPSILON), other_negative & (rows > lowest - EPSILON))
