"""Breaking the match between a query and its class (LTM, GTM)."""

from __future__ import annotations

import torch
from torch import Generator, Tensor

from holdfast.attacks.base import BoundGoal, Goal, register
from holdfast.attacks.references import References
from holdfast.errors import DataError
from holdfast.sphere import Mask, distance, precise


class _BoundMismatch(BoundGoal):
    """The farthest item of another label against the nearest one of the own."""

    floor = 0.0
    per_group = ("rows",)

    def __init__(self, references: References, rows: Tensor, keep_own: bool) -> None:
        self.references = references
        self.rows = rows
        self.keep_own = keep_own

    def loss(self, z: Tensor) -> Tensor:
        """The hinge; zero for an image without items of both kinds, which has no match to lose."""
        z = precise(z)
        references, gallery = self.references, self.references.vectors
        far, others = references.extreme(z, lambda block: references.negatives(self.rows, block), farthest=True)
        near, matches = references.extreme(z, self._own)
        hinge = torch.relu(distance(z, gallery[far]) - distance(z, gallery[near]))
        return torch.where(others & matches, hinge, 0)

    def measure(self, z: Tensor) -> dict[str, Tensor]:
        """`hit`: 1 where the nearest item shares the label."""
        return {"hit": self.references.hits(z, self.rows)}

    def _own(self, block: slice) -> Mask:
        """Items of a block that count as the own class."""
        positives = self.references.positives(self.rows, block)
        if not self.keep_own:
            return positives
        return positives | (self.references.itself(self.rows, block) & self.references.same(self.rows, block))


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


class BoundApproach(BoundGoal):
    """Distance to one gallery item."""

    per_group = ("target", "rows")

    def __init__(self, references: References, target: Tensor, rows: Tensor) -> None:
        self.references = references
        self.target = target
        self.rows = rows

    def loss(self, z: Tensor) -> Tensor:
        """The distance."""
        return distance(z, self.references.vectors[self.target])

    def measure(self, z: Tensor) -> dict[str, Tensor]:
        """`hit`: 1 where the nearest item shares the label."""
        return {"hit": self.references.hits(z, self.rows)}


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
        rows = references.rows(rows)
        target = torch.cat([self._targets(references, rows[part]) for part in references.parts(rows)])
        return BoundApproach(references, target, rows)

    def _targets(self, references: References, rows: Tensor) -> Tensor:
        if self.published:
            nearest = references.nearest(references.clean(rows), rows, 1).squeeze(1)
            allowed = ~references.alike(nearest)
            found = references.closest(rows, allowed & ~references.ignored(rows))
            # The mistake itself: a rank among the items left is used as an index of the whole gallery.
            target = allowed.cumsum(1).gather(1, found[:, None]).squeeze(1) - 1
        else:
            allowed = references.negatives(rows)
            target = references.closest(rows, allowed)
        if not bool(allowed.any(1).all()):
            raise DataError("an attacked image has no reference of another label; give references of two classes")
        return target
