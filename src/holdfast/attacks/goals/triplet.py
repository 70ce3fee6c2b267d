"""ADML's triplet and combined objectives."""

from __future__ import annotations

import torch
from torch import Generator, Tensor

from holdfast.attacks.base import BoundGoal, Goal, register
from holdfast.attacks.goals.adml import Alignment, Reference, Uniformity, batch_masks
from holdfast.attacks.goals.composed import BoundSum
from holdfast.attacks.references import References
from holdfast.mining import draw
from holdfast.sphere import precise


def _gap(z: Tensor, positive: Tensor, negative: Tensor) -> Tensor:
    z = precise(z)
    return (z - positive).square().sum(1) - (z - negative).square().sum(1)


class _CleanTriplet(BoundGoal):
    per_group = ("positive", "negative", "real")

    def __init__(self, references: References, positive: Tensor, negative: Tensor) -> None:
        self.references = references
        self.positive, self.negative = positive.clamp_min(0), negative.clamp_min(0)
        self.real = (positive >= 0) & (negative >= 0)

    def loss(self, z: Tensor) -> Tensor:
        """Minus the gap; zero for an image that has no triplet."""
        gap = _gap(z, self.references.vectors[self.positive], self.references.vectors[self.negative])
        return torch.where(self.real, -gap, 0)

    def measure(self, z: Tensor) -> dict[str, Tensor]:
        """`gap`: d_ap² - d_an²."""
        return {"gap": -self.loss(z)}


class _JointTriplet(BoundGoal):
    group = None

    def __init__(self, positive: Tensor, negative: Tensor, real: Tensor) -> None:
        self.positive, self.negative, self.real = positive, negative, real

    def _each(self, z: Tensor) -> Tensor:
        return torch.where(self.real, _gap(z, precise(z)[self.positive], precise(z)[self.negative]), 0)

    def loss(self, z: Tensor) -> Tensor:
        """Minus the sum over the batch, as the one value of one group."""
        return -self._each(z).sum(0, keepdim=True)

    def measure(self, z: Tensor) -> dict[str, Tensor]:
        """`gap`: the batch's mean over images."""
        return {"gap": self._each(z).mean(0, keepdim=True)}


@register("triplet")
class TripletGap(Goal):
    """Push an image away from one of its class and towards one of another.

    maximise d_ap² - d_an² for one drawn positive and negative, without the hinge, so that satisfied triplets count

    Args:
        reference: compare with `clean` references, one image at a time, or move the whole batch against itself.

    Requirements: labels; an image without a positive or a negative does not move.
    Relations: `alignment` and `uniformity` use all positives or negatives; `hardness` moves all three images.
    Reference: ADML, Section 5.2.
    """

    def __init__(self, reference: Reference = "clean") -> None:
        self.reference = reference

    def bind(self, references: References, rows: Tensor, generator: Generator | None = None) -> BoundGoal:
        """Draw a positive and a negative for each image."""
        rows = references.rows(rows)
        if self.reference == "clean":
            positive = references.draw(rows, same=True, generator=generator)
            return _CleanTriplet(references, positive, references.draw(rows, same=False, generator=generator))
        near, far = batch_masks(references, rows)
        real = near.any(1) & far.any(1)
        return _JointTriplet(draw.uniform(near, generator), draw.uniform(far, generator), real)


@register("alignment-uniformity")
class AlignmentUniformity(Goal):
    """Push an image away from its own class and pull it towards all others (ADML+A+U): the sum of both goals.

    Args:
        reference: compare with `clean` references, one image at a time, or move the whole batch against itself.

    Requirements: labels with two or more images per class.
    Relations: `alignment`, `uniformity`.
    Reference: ADML; the paper does not say how the two are combined.
    """

    def __init__(self, reference: Reference = "clean") -> None:
        self.reference = reference

    def bind(self, references: References, rows: Tensor, generator: Generator | None = None) -> BoundGoal:
        """Bind both."""
        both = {"alignment": Alignment(self.reference), "uniformity": Uniformity(self.reference)}
        return BoundSum([(name, goal.bind(references, rows, generator)) for name, goal in both.items()], [1.0, 1.0])
