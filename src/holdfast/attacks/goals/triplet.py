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


def _gap(z: Tensor, positive: Tensor, negative: Tensor, margin: float | None) -> Tensor:
    z = precise(z)
    gap = (z - positive).square().sum(1) - (z - negative).square().sum(1)
    return gap if margin is None else torch.relu(gap + margin)


class _CleanTriplet(BoundGoal):
    per_group = ("positive", "negative", "real")

    def __init__(self, references: References, positive: Tensor, negative: Tensor, margin: float | None) -> None:
        self.references = references
        self.margin = margin
        self.positive, self.negative = positive.clamp_min(0), negative.clamp_min(0)
        self.real = (positive >= 0) & (negative >= 0)

    def loss(self, z: Tensor) -> Tensor:
        """Minus the gap; zero for an image that has no triplet."""
        gap = _gap(z, self.references.vectors[self.positive], self.references.vectors[self.negative], self.margin)
        return torch.where(self.real, -gap, 0)

    def measure(self, z: Tensor) -> dict[str, Tensor]:
        """`gap`: d_ap² - d_an²."""
        return {"gap": -self.loss(z)}


class _JointTriplet(BoundGoal):
    group = None

    def __init__(self, positive: Tensor, negative: Tensor, real: Tensor, margin: float | None) -> None:
        self.positive, self.negative, self.real, self.margin = positive, negative, real, margin

    def images(self) -> int:
        """The size of the batch."""
        return len(self.real)

    def _each(self, z: Tensor) -> Tensor:
        gap = _gap(z, precise(z)[self.positive], precise(z)[self.negative], self.margin)
        return torch.where(self.real, gap, 0)

    def loss(self, z: Tensor) -> Tensor:
        """Minus the sum over the batch, as the one value of one group."""
        return -self._each(z).sum(0, keepdim=True)

    def measure(self, z: Tensor) -> dict[str, Tensor]:
        """`gap`: the batch's mean over images."""
        return {"gap": self._each(z).mean(0, keepdim=True)}


@register("triplet")
class TripletGap(Goal):
    """Push an image away from one of its class and towards one of another.

    maximise d_ap² - d_an² for one drawn positive and negative

    Args:
        reference: compare with `clean` references, one image at a time, or move the whole batch against itself.
        margin: maximise relu(d_ap² - d_an² + margin) instead, as the printed loss has it. A satisfied triplet then has
            no gradient and its image does not move, which makes the attack look weak; without, every triplet counts.

    Requirements: labels; an image without a positive or a negative does not move.
    Relations: `alignment` and `uniformity` use all positives or negatives; `hardness` moves all three images.
    Reference: ADML, Section 5.2.
    """

    def __init__(self, reference: Reference = "clean", margin: float | None = None) -> None:
        self.reference = reference
        self.margin = margin

    def bind(self, references: References, rows: Tensor, generator: Generator | None = None) -> BoundGoal:
        """Draw a positive and a negative for each image."""
        rows = references.rows(rows)
        if self.reference == "clean":
            positive = references.draw(rows, same=True, generator=generator)
            negative = references.draw(rows, same=False, generator=generator)
            return _CleanTriplet(references, positive, negative, self.margin)
        near, far = batch_masks(references, rows)
        real = near.any(1) & far.any(1)
        return _JointTriplet(draw.uniform(near, generator), draw.uniform(far, generator), real, self.margin)


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
