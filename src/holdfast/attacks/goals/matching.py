"""Breaking the match between a query and its class (LTM, GTM, and the worst case of the thorough audit)."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from functools import partial
from typing import ClassVar

import torch
from torch import Generator, Tensor

from holdfast.attacks.base import BoundGoal, Goal, register
from holdfast.attacks.references import References, gallery_sum
from holdfast.errors import DataError, RecipeError
from holdfast.mining import draw
from holdfast.sphere import Mask, distance, distances, precise, squared_distances


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
        (wrong, others), (right, matches) = self.references.extremes(z, self._wrong_and_right, (self.farthest, False))
        return torch.where(others & matches, distance(z, gallery[wrong]) - distance(z, gallery[right]), 0)

    def _wrong_and_right(self, block: slice) -> tuple[Mask, Mask]:
        """Items of a block that count as other classes, and as the own."""
        return self.references.negatives(self.rows, block), self._right(block)

    def _right(self, block: slice) -> Mask:
        """Items of a block that count as the own class."""
        right = self.references.positives(self.rows, block)
        if self.keep_own:
            right = right | (self.references.itself(self.rows, block) & self.references.same(self.rows, block))
        return right


@dataclasses.dataclass(eq=False)
class _BoundSoftMargin(_BoundMargin):
    """The same with soft minima, to which all near items contribute."""

    temperature: float = 40.0

    def loss(self, z: Tensor) -> Tensor:
        """Soft distance to wrong items minus that to right ones; zero for an image that has not both."""
        z = precise(z)
        wrong, others = self._soft_minimum(z, partial(self.references.negatives, self.rows))
        right, matches = self._soft_minimum(z, self._right)
        return torch.where(others & matches, wrong - right, 0)

    def _soft_minimum(self, z: Tensor, counts: Callable[[slice], Mask]) -> tuple[Tensor, Mask]:
        """-log Σ exp(-T d) / T over the items that count, and whether any does."""
        gallery = self.references.vectors.to(z.dtype)
        nearest, there = self.references.extreme(z, counts)
        least = distance(z, gallery[nearest]).detach()  # taken out of the sum, and put back: no power overflows

        def powers(z: Tensor, block: slice) -> Tensor:
            beyond = (distances(z, gallery[block]) - least[:, None]).masked_fill(~counts(block), torch.inf)
            return torch.exp(-self.temperature * beyond).sum(1)

        total = gallery_sum(z, len(self.references), powers).clamp_min(torch.finfo(z.dtype).tiny)
        return least - total.log() / self.temperature, there


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


@register("soft-misrank")
class SoftMisrank(Goal):
    """As `misrank`, with soft minima: all near items pull or push, not one of each kind.

    L = (log Σ_{same label} exp(-T d) - log Σ_{other label} exp(-T d)) / T

    Args:
        temperature: T; the larger, the fewer items matter.

    Requirements: labels.
    Relations: `misrank` for T → ∞; its gradient jumps from item to item, this one turns gradually.
    """

    def __init__(self, temperature: float = 40.0) -> None:
        if not 0 < temperature < float("inf"):
            raise RecipeError(f"goal.temperature must be above zero, got {temperature}")
        self.temperature = temperature

    def bind(self, references: References, rows: Tensor, generator: Generator | None = None) -> BoundGoal:
        """Remember whose class is meant."""
        return _BoundSoftMargin(references, references.rows(rows), temperature=self.temperature)


class UntilMissed(BoundMatch):
    """Any goal of a query, reached as soon as another class is found first: what is broken takes no more steps.

    The first iterate that breaks is also the best one, whatever the loss of later ones.

    Args:
        goal: what is minimised until then, bound to the same rows.
        references: the gallery.
        rows: the queries.
    """

    floor = -1e6
    clearly: ClassVar[float] = 0.01
    """How much nearer than the own class the other must be, so that no rounding brings the own one back."""

    def __init__(self, goal: BoundGoal, references: References, rows: Tensor) -> None:
        super().__init__(references, rows)
        self.goal = goal
        self.stationary = goal.stationary

    def loss(self, z: Tensor) -> Tensor:
        """The goal's, or the floor."""
        loss = self.goal.loss(z)
        if type(self.goal) is _BoundMargin:
            margin = loss
        else:
            with torch.no_grad():
                margin = _BoundMargin(self.references, self.rows).loss(z)
        return torch.where(margin < -self.clearly, self.floor, loss)

    def take(self, groups: slice | Tensor) -> UntilMissed:
        """The goal's part."""
        return UntilMissed(self.goal.take(groups), self.references, self.rows[groups])


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
