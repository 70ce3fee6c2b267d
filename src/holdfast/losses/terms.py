"""Costs before they are averaged."""

from __future__ import annotations

from abc import abstractmethod
from typing import NamedTuple

import torch
from torch import Generator, Tensor

from holdfast.errors import RecipeError
from holdfast.losses.base import Loss
from holdfast.mining.tuples import Tuples
from holdfast.sphere import Mask, masked_mean


class Terms(NamedTuple):
    """Single costs: one per triplet, pair, anchor or image, as the loss says.

    Args:
        values: the costs.
        mask: which of them exist; the others hold anything finite.
        active: average only over costs above zero.
    """

    values: Tensor
    mask: Mask
    active: bool = False

    def mean(self) -> Tensor:
        """The average cost; zero, still with a graph, when there is none."""
        return masked_mean(self.values, self.mask & (self.values > 0) if self.active else self.mask)

    def lowest(self, keep: float) -> Terms:
        """The same costs, of which only the lowest fraction exists; at least one does if any did."""
        flat = self.values.detach().masked_fill(~self.mask, torch.inf).flatten()
        number = (self.mask.sum() * keep).round().clamp_min(1)
        chosen = torch.arange(len(flat), device=flat.device) < number
        kept = torch.zeros_like(chosen).scatter_(0, flat.argsort(stable=True), chosen)
        return self._replace(mask=self.mask & kept.view_as(self.mask))


class TermLoss(Loss):
    """A loss that is a sum of averages, whose single costs can be asked for."""

    @abstractmethod
    def terms(
        self, embeddings: Tensor, labels: Tensor, tuples: Tuples | None = None, generator: Generator | None = None
    ) -> list[Terms]:
        """The costs behind the loss; arguments as in `forward`."""

    def forward(
        self, embeddings: Tensor, labels: Tensor, tuples: Tuples | None = None, generator: Generator | None = None
    ) -> Tensor:
        """The sum of the average costs."""
        return torch.stack([terms.mean() for terms in self.terms(embeddings, labels, tuples, generator)]).sum()


def require_positive(**values: float) -> None:
    """Refuse a scale, temperature or sharpness that is not above zero."""
    for name, value in values.items():
        if not value > 0:
            raise RecipeError(f"{name} must be above zero, got {value}")
