"""ADML's objectives: away from the own class (alignment), towards the others (uniformity), or both at once.

Each image is moved against clean references (the paper's text), or the whole batch is moved together (its algorithm):
then the references are the moved images themselves, and the batch is one group whose loss is the sum over its images.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import Literal, TypeAlias

import torch
from torch import Generator, Tensor

from holdfast.attacks.base import BoundGoal, Goal, register
from holdfast.attacks.gallery import gallery_sum
from holdfast.attacks.references import References
from holdfast.errors import DataError
from holdfast.sphere import Mask, precise, similarity, squared_distances

Reference: TypeAlias = Literal["clean", "joint"]


def _row_mean(values: Tensor, mask: Mask) -> Tensor:
    """Mean of the selected values of each row; zero where there are none."""
    return torch.where(mask, values, 0).sum(1) / mask.sum(1).clamp_min(1)


class _Joint(BoundGoal):
    """A batch that moves together.

    Args:
        mask: which pairs of the batch count.
    """

    group = None

    def __init__(self, mask: Mask) -> None:
        self.mask = mask

    def images(self) -> int:
        """The size of the batch."""
        return len(self.mask)

    @abstractmethod
    def each(self, z: Tensor) -> Tensor:
        """What is maximised, per image."""

    def loss(self, z: Tensor) -> Tensor:
        """Minus the sum over the batch, as the one value of one group."""
        return -self.each(z).sum(0, keepdim=True)


def batch_masks(references: References, rows: Tensor) -> tuple[Mask, Mask]:
    """Positive and negative pairs of the attacked images among each other."""
    if references.queries is not None:
        raise DataError("moving a batch jointly compares its images with each other; use reference: clean for queries")
    return references.positives(rows, rows), references.negatives(rows, rows)


class _JointAlignment(_Joint):
    def each(self, z: Tensor) -> Tensor:
        return _row_mean(squared_distances(z), self.mask)

    def measure(self, z: Tensor) -> dict[str, Tensor]:
        """`alignment`: the batch's mean over images."""
        return {"alignment": self.each(z).mean(0, keepdim=True)}


class _CleanAlignment(BoundGoal):
    """The mean squared distance to a set is a squared distance to its mean, plus a constant."""

    per_group = ("centre", "spread", "any")

    def __init__(self, references: References, rows: Tensor) -> None:
        centres, spreads, some = [], [], []
        for part in references.parts(rows):
            mask = references.positives(rows[part])
            weights = mask.to(references.vectors.dtype) / mask.sum(1, keepdim=True).clamp_min(1)
            centre = similarity(weights, references.vectors.T)
            squares = weights @ references.vectors.square().sum(1)
            centres.append(centre)
            spreads.append(squares - centre.square().sum(1))
            some.append(mask.any(1))
        self.centre, self.spread, self.any = torch.cat(centres), torch.cat(spreads), torch.cat(some)

    def loss(self, z: Tensor) -> Tensor:
        """Minus the mean squared distance to the positives; zero where there are none."""
        apart = (precise(z) - self.centre).square().sum(1) + self.spread
        return torch.where(self.any, -apart, 0)

    def measure(self, z: Tensor) -> dict[str, Tensor]:
        """`alignment`: mean squared distance to the positives."""
        return {"alignment": -self.loss(z)}


@register("alignment")
class Alignment(Goal):
    """Push an image away from its own class.

    maximise mean_{P_i} ||f(x_i') - f(x_j)||²

    Args:
        reference: compare with `clean` references, one image at a time, or move the whole batch against itself.

    Requirements: labels with two or more images per class; an image that is alone in its class does not move.
    Relations: `uniformity` pulls towards other classes; `unadversarial` pulls towards the own.
    Reference: ADML, Equation 6 (clean) and Algorithm 1 (joint).
    """

    def __init__(self, reference: Reference = "clean") -> None:
        self.reference = reference

    def bind(self, references: References, rows: Tensor, generator: Generator | None = None) -> BoundGoal:
        """Find each image's class."""
        rows = references.rows(rows)
        if self.reference == "joint":
            return _JointAlignment(batch_masks(references, rows)[0])
        return _CleanAlignment(references, rows)


class _JointUniformity(_Joint):
    def each(self, z: Tensor) -> Tensor:
        return _row_mean((-squared_distances(z)).exp(), self.mask)

    def measure(self, z: Tensor) -> dict[str, Tensor]:
        """`uniformity`: the batch's mean over images."""
        return {"uniformity": self.each(z).mean(0, keepdim=True)}


class _CleanUniformity(BoundGoal):
    per_group = ("rows", "count")

    def __init__(self, references: References, rows: Tensor) -> None:
        self.references = references
        self.rows = rows
        self.count = torch.cat([references.negatives(rows[part]).sum(1) for part in references.parts(rows)])

    def loss(self, z: Tensor) -> Tensor:
        """Minus the mean energy between the image and the negatives."""

        def energies(moved: Tensor, block: slice) -> Tensor:
            mask = self.references.negatives(self.rows, block)
            squared = squared_distances(moved, self.references.vectors[block].to(moved.dtype))
            return torch.where(mask, (-squared).exp(), 0).sum(1)

        return -gallery_sum(z, len(self.references), energies) / self.count.clamp_min(1)

    def measure(self, z: Tensor) -> dict[str, Tensor]:
        """`uniformity`: mean energy with the negatives."""
        return {"uniformity": -self.loss(z)}


@register("uniformity")
class Uniformity(Goal):
    """Pull an image towards all other classes.

    maximise mean_{N_i} exp(-||f(x_i') - f(x_j)||²)

    Args:
        reference: compare with `clean` references, one image at a time, or move the whole batch against itself.

    Requirements: labels of two or more classes.
    Relations: `alignment` pushes away from the own class; `single-target` pulls towards one image.
    Reference: ADML, Equation 7 (clean) and Algorithm 2 (joint).
    """

    def __init__(self, reference: Reference = "clean") -> None:
        self.reference = reference

    def bind(self, references: References, rows: Tensor, generator: Generator | None = None) -> BoundGoal:
        """Find each image's negatives."""
        rows = references.rows(rows)
        if self.reference == "joint":
            return _JointUniformity(batch_masks(references, rows)[1])
        return _CleanUniformity(references, rows)
