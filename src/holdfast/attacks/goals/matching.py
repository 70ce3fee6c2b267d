"""Breaking the match between a query and its class (LTM, GTM, and the worst case of the thorough audit)."""

from __future__ import annotations

import dataclasses
from functools import partial
from typing import ClassVar

import torch
from torch import Generator, Tensor

from holdfast.attacks.base import BoundGoal, Goal, register
from holdfast.attacks.references import References
from holdfast.errors import DataError, RecipeError
from holdfast.mining import draw
from holdfast.sphere import Mask, distance, precise, squared_distances


@dataclasses.dataclass(eq=False)
class BoundMatch(BoundGoal):
    """Measures whether a query still finds its class first."""

    references: References
    rows: Tensor

    per_group: ClassVar[tuple[str, ...]] = ("rows",)

    def measure(self, z: Tensor) -> dict[str, Tensor]:
        """`hit`: 1 where the nearest item shares the label."""
        return {"hit": self.references.hits(z, self.rows)}


@dataclasses.dataclass(eq=False)
class _BoundMargin(BoundMatch):
    """How much farther the nearest wrong item is than the nearest right one.

    Args:
        keep_own: count the query's own clean copy among its class.
    """

    keep_own: bool = False

    farthest: ClassVar[bool] = False

    def loss(self, z: Tensor) -> Tensor:
        """Distance to a wrong item minus that to a right one; zero for an image that has not both."""
        z, gallery = precise(z), self.references.vectors
        negatives = partial(self.references.negatives, self.rows)
        wrong, others = self.references.extreme(z, negatives, farthest=self.farthest)
        right, matches = self.references.extreme(z, self._right)
        return torch.where(others & matches, distance(z, gallery[wrong]) - distance(z, gallery[right]), 0)

    def _right(self, block: slice) -> Mask:
        """Items of a block that count as the own class."""
        right = self.references.positives(self.rows, block)
        if self.keep_own:
            right = right | (self.references.itself(self.rows, block) & self.references.same(self.rows, block))
        return right


class _BoundMismatch(_BoundMargin):
    """The same for the farthest wrong item, down to zero."""

    floor = 0.0
    farthest = True

    def loss(self, z: Tensor) -> Tensor:
        """The hinge."""
        return torch.relu(super().loss(z))


@register("ltm")
class LearningToMisrank(Goal):
    """Bring all other classes nearer than the own (LTM).

    L = relu(max_{other label} d - min_{same label} d)

    Args:
        published: count the query's own clean copy among its class, as the published scores do.

    Requirements: labels.
    Relations: `gtm` asks for one wrong item only.
    Reference: HM, Section 4.
    """

    def __init__(self, published: bool = False) -> None:
        self.published = published

    def bind(self, references: References, rows: Tensor, generator: Generator | None = None) -> BoundGoal:
        """Remember whose class is meant."""
        references.require_labels()
        return _BoundMismatch(references, references.rows(rows), self.published)


@dataclasses.dataclass(eq=False)
class _BoundApproach(BoundMatch):
    """Distance to one gallery item."""

    target: Tensor

    per_group: ClassVar[tuple[str, ...]] = ("rows", "target")

    def loss(self, z: Tensor) -> Tensor:
        """The distance."""
        return distance(z, self.references.vectors[self.target])


@register("gtm")
class GreedyTopOneMisranking(Goal):
    """Pull a query onto its nearest item of another class (GTM).

    L = d(q', u), u the nearest item of another label to the clean query

    Args:
        published: find u as the published scores do: another label than that of the clean nearest neighbour, and its
            position among the items that remain taken for a position in the whole gallery. Own copies stay aside.

    Requirements: labels of two or more classes.
    Relations: `single-target` draws its target; `ltm` turns away from the own class as well.
    Reference: HM, Section 4.
    """

    def __init__(self, published: bool = False) -> None:
        self.published = published

    def bind(self, references: References, rows: Tensor, generator: Generator | None = None) -> BoundGoal:
        """Find the item to approach."""
        if not self.published:
            return NearestWrong().bind(references, rows)
        rows = references.rows(rows)
        target = torch.cat([_misread_target(references, rows[part]) for part in references.parts(rows)])
        return _BoundApproach(references, rows, target)


def _misread_target(references: References, rows: Tensor) -> Tensor:
    """The item that the published scores approach."""
    clean = references.clean(rows)
    allowed = ~references.alike(references.nearest(clean, rows, 1).squeeze(1))
    if not bool(allowed.any(1).all()):
        raise DataError("an attacked image has no reference of another label; give references of two classes")
    found = draw.nearest(squared_distances(clean, references.vectors), allowed & ~references.ignored(rows))
    # The mistake itself: a rank among the items left is used as an index of the whole gallery.
    return allowed.cumsum(1).gather(1, found[:, None]).squeeze(1) - 1


@register("misrank")
class Misrank(Goal):
    """Bring the nearest wrong item nearer than the nearest right one: R@1 itself, as a margin.

    L = min_{other label} d - min_{same label} d, below zero once the query finds a wrong item first

    Requirements: labels.
    Relations: `ltm` asks for the farthest wrong item; `nearest-wrong` fixes the item before it starts.
    Reference: the margin loss of Carlini and Wagner (2017), for rankings.
    """

    def bind(self, references: References, rows: Tensor, generator: Generator | None = None) -> BoundGoal:
        """Remember whose class is meant."""
        return _BoundMargin(references, references.rows(rows))


@register("nearest-wrong")
class NearestWrong(Goal):
    """Pull a query onto the nearest item of its nearest, second or third nearest other class.

    L = d(q', u), u the nearest item of the other class whose nearest item comes in place `rank`

    Args:
        rank: which other class, counted from 1.

    Requirements: integer labels of more than `rank` classes.
    Relations: `gtm` for rank 1.
    Reference: targeted APGD of Croce and Hein (ICML 2020), for rankings.
    """

    def __init__(self, rank: int = 1) -> None:
        if rank < 1:
            raise RecipeError(f"goal.rank must be 1 or more, got {rank}")
        self.rank = rank

    def bind(self, references: References, rows: Tensor, generator: Generator | None = None) -> BoundGoal:
        """Find the item to approach: each found class is set aside until the wanted one is the nearest left."""
        rows = references.rows(rows)
        clean = references.clean(rows)
        passed: list[Tensor] = []
        for _ in range(self.rank):

            def left(block: slice) -> Tensor:
                allowed = references.negatives(rows, block)
                for items in passed:
                    allowed = allowed & ~references.alike(items, block)
                return allowed

            found, there = references.extreme(clean, left)
            if not bool(there.all()):
                few = f"fewer than {self.rank} other classes to aim at"
                raise DataError(f"an attacked image has {few}; give references of {self.rank + 1} classes or more")
            passed.append(found)
        return _BoundApproach(references, rows, passed[-1])
