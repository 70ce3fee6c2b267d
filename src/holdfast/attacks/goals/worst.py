"""What the thorough audit asks: is any wrong item nearer than every right one?"""

from __future__ import annotations

import torch
from torch import Generator, Tensor

from holdfast.attacks.base import BoundGoal, Goal, register
from holdfast.attacks.goals.matching import BoundApproach
from holdfast.attacks.references import References
from holdfast.errors import DataError, RecipeError
from holdfast.sphere import distance, precise


class _BoundMisrank(BoundGoal):
    per_group = ("rows",)

    def __init__(self, references: References, rows: Tensor) -> None:
        self.references = references
        self.rows = rows

    def loss(self, z: Tensor) -> Tensor:
        """Nearest wrong minus nearest right; zero for an image without items of both kinds."""
        z = precise(z)
        references = self.references
        wrong, others = references.extreme(z, lambda block: references.negatives(self.rows, block))
        right, matches = references.extreme(z, lambda block: references.positives(self.rows, block))
        margin = distance(z, references.vectors[wrong]) - distance(z, references.vectors[right])
        return torch.where(others & matches, margin, 0)

    def measure(self, z: Tensor) -> dict[str, Tensor]:
        """`hit`: 1 where the nearest item shares the label."""
        return {"hit": self.references.hits(z, self.rows)}


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
        return _BoundMisrank(references, references.rows(rows))


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
                raise DataError(
                    f"an attacked image has fewer than {self.rank} other classes to aim at; lower goal.rank"
                )
            passed.append(found)
        return BoundApproach(references, passed[-1], rows)
