"""Goals that attack several images together: a pair (ACT) or a triplet (HM)."""

from __future__ import annotations

import dataclasses

import torch
from torch import Generator, Tensor

from holdfast.attacks.base import BoundGoal, Goal, register, split_groups
from holdfast.attacks.references import References
from holdfast.errors import DataError
from holdfast.sphere import pairwise_distance


class _BoundCollapse(BoundGoal):
    group = 2

    def loss(self, z: Tensor) -> Tensor:
        """Distance within each pair."""
        pairs = split_groups(z, 2)
        return pairwise_distance(pairs[:, 0], pairs[:, 1])

    def measure(self, z: Tensor) -> dict[str, Tensor]:
        """`distance`: within each pair."""
        return {"distance": self.loss(z)}


@register("collapse")
class Collapse(Goal):
    """Make a positive and a negative collide.

    L = d(p', n'), images in pairs (p, n)

    Relations: what ACT trains on; `hardness` attacks the anchor too.
    Reference: Zhou et al., 2021; HM, Section 2.
    """

    group_size = 2

    def bind(self, references: References, rows: Tensor, generator: Generator | None = None) -> BoundGoal:
        """Nothing to draw: the pairs are given."""
        return _BoundCollapse()


@dataclasses.dataclass(eq=False)
class _BoundHardness(BoundGoal):
    destination: Tensor

    group = 3
    floor = 0.0
    per_group = ("destination",)

    def loss(self, z: Tensor) -> Tensor:
        """Squared shortfall of each triplet."""
        return torch.relu(self.destination - self._hardness(z)).square()

    def measure(self, z: Tensor) -> dict[str, Tensor]:
        """`hardness`: d(a', p') - d(a', n')."""
        return {"hardness": self._hardness(z)}

    def _hardness(self, z: Tensor) -> Tensor:
        anchor, positive, negative = split_groups(z, 3).unbind(1)
        return pairwise_distance(anchor, positive) - pairwise_distance(anchor, negative)


@register("hardness")
class RaiseHardness(Goal):
    """Raise the hardness of a triplet up to a destination, and no further.

    L = max(0, H_D - H)², H = d(a', p') - d(a', n'), images in triplets (a, p, n)

    d adds 1e-6 to the difference, as torch's `pairwise_distance` does: an anchor that is its own positive, which the
    published `softhard` allows, has a way to go.

    Args:
        destination: H_D, one number or one per triplet. The default is the largest hardness there is.

    Requirements: a zero start, if triplets that are hard enough are to stay untouched bit for bit.
    Relations: a destination of 2 is min-max training; `collapse` leaves the anchor alone.
    Reference: HM, Equation 2.
    """

    group_size = 3

    def __init__(self, destination: float | Tensor = 2.0) -> None:
        self.destination = destination

    def bind(self, references: References, rows: Tensor, generator: Generator | None = None) -> BoundGoal:
        """Give every triplet its destination."""
        triplets = len(rows) // 3
        wanted = torch.as_tensor(self.destination, dtype=references.vectors.dtype, device=references.device).detach()
        if wanted.ndim and wanted.shape != (triplets,):
            raise DataError(f"{triplets} triplets came with destinations of shape {tuple(wanted.shape)}; give one each")
        return _BoundHardness(wanted.expand(triplets))
