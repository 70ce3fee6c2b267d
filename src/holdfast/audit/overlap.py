"""MDProp's Equations 4, 6 and 7: whether imitations reach their targets, and where classes overlap."""

from __future__ import annotations

import dataclasses

import torch
from torch import Tensor
from torch.nn import functional as F

from holdfast.attacks import References
from holdfast.audit.subject import Subject
from holdfast.metrics.base import blocks
from holdfast.sphere import distance, distances


def success_rate(references: References, rows: Tensor, farthest: Tensor) -> Tensor:
    """For each image, how often Equation 4 holds; NaN where the gallery has no image of its class.

    d(f(x'), f(t)) <= d(f(x), f(r)) for every target t; r is an image of the own class, and the value is the mean over
    all r in the gallery, as the paper does not say which.

    Args:
        references: the clean gallery.
        rows: the attacked images.
        farthest: distance of each adversarial image to the farthest of its targets.
    """
    return own_images_beyond(references, rows, references.clean(rows), farthest)


@torch.no_grad()
def own_images_beyond(references: References, rows: Tensor, vectors: Tensor, lengths: Tensor) -> Tensor:
    """Share of an image's own class in the gallery that is at least so far from it; NaN where there is none.

    Args:
        references: the clean gallery.
        rows: which images.
        vectors: where they are.
        lengths: how far, one length per image.
    """
    found = []
    for part in references.parts(rows):
        own = references.positives(rows[part])
        beyond = distances(vectors[part], references.vectors) >= lengths[part][:, None]
        found.append((own & beyond).sum(1).double() / own.sum(1).double())  # 0 / 0 is NaN
    return torch.cat(found)


@dataclasses.dataclass(frozen=True)
class Centres:
    """Where the classes of a gallery are, for Equations 6 and 7.

    Args:
        references: the clean gallery.
        labels: its classes, sorted.
        vectors: their centres: means of clean embeddings, scaled to unit length.
        within: τ of Equation 6, which the paper leaves open: the distance within which half of the gallery lies of the
            own class's centre.
    """

    references: References
    labels: Tensor
    vectors: Tensor
    within: float

    @classmethod
    def of(cls, references: References) -> Centres:
        """The centres of a gallery with labels."""
        labels, index = references.labels.unique(return_inverse=True)  # type: ignore[no-untyped-call]
        sums = torch.zeros(len(labels), references.vectors.shape[1], dtype=torch.float64, device=references.device)
        sums.index_add_(0, index, references.vectors.double())
        centres = F.normalize(sums, dim=1).to(references.vectors.dtype)
        own = torch.cat([distance(references.vectors[b], centres[index[b]]) for b in blocks(*references.vectors.shape)])
        return cls(references, labels, centres, float(own.median()))

    @torch.no_grad()
    def nearest_other(self, vectors: Tensor, classes: Tensor) -> Tensor:
        """Distance to the nearest centre of another class."""
        found = []
        for part in blocks(len(vectors), len(self.labels)):
            away = distances(vectors[part], self.vectors)
            found.append(away.masked_fill(classes[part][:, None] == self.labels, torch.inf).amin(1))
        return torch.cat(found)

    def overlap(self, subject: Subject, vectors: Tensor) -> tuple[Tensor, Tensor]:
        """Whether Equation 6 holds for each attacked image, and how often 6 and 7 do.

        6: d(f(x), c) <= τ for the centre c of another class, the least B that overlaps with the own.
        7: d(f(x), c) <= d(f(x), f(g)), g an image of the own class; the mean over all g there are, NaN without any.

        Args:
            subject: whose attacked images are meant.
            vectors: where they are, clean or adversarial; centres, gallery and τ are clean.
        """
        rows = subject.rows
        nearest = self.nearest_other(vectors, subject.labels[rows].to(vectors.device))
        within = (nearest <= self.within).double()
        return within, within * own_images_beyond(self.references, rows.to(vectors.device), vectors, nearest)
