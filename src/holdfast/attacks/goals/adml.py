"""ADML's objectives: away from the own class (alignment), towards the others (uniformity), both, or along triplets.

Each image is attacked against clean references (the paper's text), or the whole batch is attacked together (its
algorithm): then the references are the adversarial images themselves, and the batch is one group whose loss is the sum
over its images.
"""

from __future__ import annotations

import dataclasses
from abc import abstractmethod
from collections.abc import Callable
from typing import ClassVar, Literal, TypeAlias

import torch
from torch import Generator, Tensor

from holdfast.attacks.base import BoundGoal, Goal, register
from holdfast.attacks.goals.composed import BoundGoals
from holdfast.attacks.references import References, gallery_sum
from holdfast.errors import DataError
from holdfast.mining import draw
from holdfast.sphere import Mask, precise, row_mean, similarity, squared_distances

Reference: TypeAlias = Literal["clean", "joint"]


class _Clean(BoundGoal):
    """Images that are attacked one at a time, against clean references."""

    name: ClassVar[str]
    """Of its measure."""

    @abstractmethod
    def each(self, z: Tensor) -> Tensor:
        """What is maximised, per image."""

    def loss(self, z: Tensor) -> Tensor:
        """Minus what is maximised."""
        return -self.each(z)

    def measure(self, z: Tensor) -> dict[str, Tensor]:
        """What is maximised."""
        return {self.name: self.each(z)}


@dataclasses.dataclass(eq=False)
class _Joint(BoundGoal):
    """A batch that is attacked together.

    Args:
        name: of its measure, the batch's mean over images.
        count: the size of the batch.
        each: embeddings → what is maximised, per image.
    """

    name: str
    count: int
    each: Callable[[Tensor], Tensor]

    group = None

    def images(self) -> int:
        """The size of the batch."""
        return self.count

    def loss(self, z: Tensor) -> Tensor:
        """Minus the sum over the batch, as the one value of one group."""
        return -self.each(z).sum(0, keepdim=True)

    def measure(self, z: Tensor) -> dict[str, Tensor]:
        """The mean over the batch."""
        return {self.name: self.each(z).mean(0, keepdim=True)}


class _AgainstClasses(Goal):
    """Compares images with clean references, or a batch that is attacked together with itself."""

    def __init__(self, reference: Reference = "clean") -> None:
        self.reference = reference


def _batch_masks(references: References, rows: Tensor) -> tuple[Mask, Mask]:
    """Positive and negative pairs of the attacked images among each other."""
    if references.queries is not None:
        raise DataError(
            "attacking a batch jointly compares its images with each other; use reference: clean for queries"
        )
    return references.positives(rows, rows), references.negatives(rows, rows)


class _CleanAlignment(_Clean):
    """The mean squared distance to a set is a squared distance to its mean, plus a constant."""

    name = "alignment"
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

    def each(self, z: Tensor) -> Tensor:
        """The mean squared distance to the positives; zero where there are none."""
        apart = (precise(z) - self.centre).square().sum(1) + self.spread
        return torch.where(self.any, apart, 0)


@register("alignment")
class Alignment(_AgainstClasses):
    """Push an image away from its own class.

    maximise mean_{P_i} ||f(x_i') - f(x_j)||²

    Args:
        reference: compare with `clean` references, one image at a time, or attack the whole batch against itself.

    Requirements: labels with two or more images per class; an image that is alone in its class stays clean.
    Relations: `uniformity` pulls towards other classes; `unadversarial` pulls towards the own.
    Reference: ADML, Equation 6 (clean) and Algorithm 1 (joint).
    """

    def bind(self, references: References, rows: Tensor, generator: Generator | None = None) -> BoundGoal:
        """Find each image's class."""
        rows = references.rows(rows)
        if self.reference == "joint":
            positives, _ = _batch_masks(references, rows)
            return _Joint("alignment", len(rows), lambda z: row_mean(squared_distances(z), positives))
        return _CleanAlignment(references, rows)


class _CleanUniformity(_Clean):
    name = "uniformity"
    per_group = ("rows", "count")

    def __init__(self, references: References, rows: Tensor) -> None:
        self.references = references
        self.rows = rows
        self.count = torch.cat([references.negatives(rows[part]).sum(1) for part in references.parts(rows)])

    def each(self, z: Tensor) -> Tensor:
        """The mean energy between the image and the negatives."""

        def energies(z: Tensor, block: slice) -> Tensor:
            mask = self.references.negatives(self.rows, block)
            squared = squared_distances(z, self.references.vectors[block].to(z.dtype))
            return torch.where(mask, (-squared).exp(), 0).sum(1)

        return gallery_sum(z, len(self.references), energies) / self.count.clamp_min(1)


@register("uniformity")
class Uniformity(_AgainstClasses):
    """Pull an image towards all other classes.

    maximise mean_{N_i} exp(-||f(x_i') - f(x_j)||²)

    Args:
        reference: compare with `clean` references, one image at a time, or attack the whole batch against itself.

    Requirements: labels of two or more classes.
    Relations: `alignment` pushes away from the own class; `single-target` pulls towards one image.
    Reference: ADML, Equation 7 (clean) and Algorithm 2 (joint).
    """

    def bind(self, references: References, rows: Tensor, generator: Generator | None = None) -> BoundGoal:
        """Find each image's negatives."""
        rows = references.rows(rows)
        if self.reference == "joint":
            _, negatives = _batch_masks(references, rows)
            return _Joint("uniformity", len(rows), lambda z: row_mean((-squared_distances(z)).exp(), negatives))
        return _CleanUniformity(references, rows)


def _gap(z: Tensor, positive: Tensor, negative: Tensor, real: Mask, margin: float | None) -> Tensor:
    """d_ap² - d_an², or its hinge; zero for an image that has no triplet."""
    gap = (z - positive).square().sum(1) - (z - negative).square().sum(1)
    return torch.where(real, gap if margin is None else torch.relu(gap + margin), 0)


@dataclasses.dataclass(eq=False)
class _CleanTriplet(_Clean):
    references: References
    positive: Tensor
    negative: Tensor
    margin: float | None

    name = "gap"
    per_group = ("positive", "negative")

    def each(self, z: Tensor) -> Tensor:
        """The gap; a triplet that lacks an image has an index of -1."""
        real, vectors = (self.positive >= 0) & (self.negative >= 0), self.references.vectors
        return _gap(precise(z), vectors[self.positive], vectors[self.negative], real, self.margin)


@register("triplet")
class TripletGap(_AgainstClasses):
    """Push an image away from one of its class and towards one of another.

    maximise d_ap² - d_an² for one drawn positive and negative

    Args:
        reference: compare with `clean` references, one image at a time, or attack the whole batch against itself.
        margin: maximise relu(d_ap² - d_an² + margin) instead, as the printed loss has it. A satisfied triplet then has
            no gradient and its image stays clean, which makes the attack look weak; without, every triplet counts.

    Requirements: labels; an image without a positive or a negative stays clean.
    Relations: `alignment` and `uniformity` use all positives or negatives; `hardness` attacks all three images.
    Reference: ADML, Section 5.2.
    """

    def __init__(self, reference: Reference = "clean", margin: float | None = None) -> None:
        super().__init__(reference)
        self.margin = margin

    def bind(self, references: References, rows: Tensor, generator: Generator | None = None) -> BoundGoal:
        """Draw a positive and a negative for each image."""
        rows = references.rows(rows)
        if self.reference == "clean":
            positive = references.draw(rows, same=True, generator=generator)
            negative = references.draw(rows, same=False, generator=generator)
            return _CleanTriplet(references, positive, negative, self.margin)
        positives, negatives = _batch_masks(references, rows)
        real = positives.any(1) & negatives.any(1)
        pos, neg = draw.uniform(positives, generator), draw.uniform(negatives, generator)
        return _Joint("gap", len(rows), lambda z: _gap(precise(z), precise(z)[pos], precise(z)[neg], real, self.margin))


@register("alignment-uniformity")
class AlignmentUniformity(_AgainstClasses):
    """Push an image away from its own class and pull it towards all others (ADML+A+U): the sum of both goals.

    Args:
        reference: compare with `clean` references, one image at a time, or attack the whole batch against itself.

    Requirements: labels with two or more images per class.
    Relations: `alignment`, `uniformity`.
    Reference: ADML; the paper does not say how the two are combined.
    """

    def bind(self, references: References, rows: Tensor, generator: Generator | None = None) -> BoundGoal:
        """Bind both."""
        both = {"alignment": Alignment(self.reference), "uniformity": Uniformity(self.reference)}
        return BoundGoals({name: goal.bind(references, rows, generator) for name, goal in both.items()}, [1.0, 1.0])
