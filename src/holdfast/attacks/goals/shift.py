"""Shifting an embedding away from where it was (EST, ES)."""

from __future__ import annotations

import dataclasses
from typing import ClassVar

from torch import Generator, Tensor

from holdfast.attacks.base import BoundGoal, Goal, register
from holdfast.attacks.references import References
from holdfast.sphere import distance, pairwise_distance


@dataclasses.dataclass(eq=False)
class _BoundShift(BoundGoal):
    """Distance from an origin; at the origin it rises in the direction of (1, ..., 1)."""

    origin: Tensor

    stationary = True
    per_group: ClassVar[tuple[str, ...]] = ("origin",)

    def loss(self, z: Tensor) -> Tensor:
        """Minus the shift."""
        return -pairwise_distance(z, self.origin)

    def measure(self, z: Tensor) -> dict[str, Tensor]:
        """`shift`: the distance."""
        return {"shift": distance(z, self.origin)}


@register("shift")
class Shift(Goal):
    """Move an embedding as far as possible from where it was, in any direction.

    L = -||f(x') - f(x) + 1e-6||; without the 1e-6 the first step would have no direction

    Relations: what EST trains on; `es` is the same attack with its audit measures.
    Reference: Zhou et al., ECCV 2020.
    """

    def bind(self, references: References, rows: Tensor, generator: Generator | None = None) -> BoundGoal:
        """Remember where each image was."""
        return _BoundShift(references.clean(references.rows(rows)))


@dataclasses.dataclass(eq=False)
class _BoundShiftedQuery(_BoundShift):
    references: References
    rows: Tensor

    per_group: ClassVar[tuple[str, ...]] = ("origin", "rows")

    def measure(self, z: Tensor) -> dict[str, Tensor]:
        """`shift`: the distance (ES:D); `hit`: 1 where the nearest item still shares the label (ES:R)."""
        return {**super().measure(z), "hit": self.references.hits(z, self.rows)}


@register("es")
class EmbeddingShift(Goal):
    """Move a query as far as possible from where it was (ES), and see what it finds from there.

    L = -||f(q') - f(q) + 1e-6||

    Requirements: labels.
    Relations: `shift` is the same attack without labels. The published ES:D is `-Attacked.previous`, one update early.
    Reference: HM, Section 4.
    """

    def bind(self, references: References, rows: Tensor, generator: Generator | None = None) -> BoundGoal:
        """Remember where each image was."""
        references.require_labels()
        rows = references.rows(rows)
        return _BoundShiftedQuery(references.clean(rows), references, rows)
