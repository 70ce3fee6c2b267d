"""Costs before they are averaged."""

from __future__ import annotations

from abc import abstractmethod
from typing import NamedTuple

import torch
from torch import Generator, Tensor

from holdfast.errors import RecipeError
from holdfast.losses.base import Loss
from holdfast.losses.sides import Side
from holdfast.mining import Tuples


class Terms(NamedTuple):
    """Single costs: one per triplet, pair, anchor or image, as the loss says.

    Args:
        values: the costs.
        which: of them exist: a mask of booleans or of zeros and ones, or the side whose pairs have these costs; all
            when left out. The others hold anything finite.
        active: average only over costs above zero; those that do not exist are not above zero.
    """

    values: Tensor
    which: Tensor | Side | None = None
    active: bool = False

    @property
    def mask(self) -> Tensor:
        """Which costs exist."""
        if self.which is None:
            return torch.ones_like(self.values, dtype=torch.bool)
        return self.which if isinstance(self.which, Tensor) else self.which.mask

    def mean(self) -> Tensor:
        """The average cost; zero, still with a graph, when there is none."""
        if self.which is None and not self.active:
            return self.values.mean() if self.values.numel() else self.values.sum()
        total, number = self.sums()
        return total / number.clamp_min(1)

    def sums(self) -> tuple[Tensor, Tensor]:
        """The sum of the costs, and how many they are (of the same type)."""
        if not self.active:
            return (self.values * self.mask).sum(), self.mask.sum(dtype=self.values.dtype)
        values = self.values.detach()
        if values.device.type == "cpu" and values.numel() and values.amax() <= 0:  # one look instead of six
            return self.values[:0].sum(), values.new_zeros(())
        above = torch.empty_like(values)
        # Written as zeros and ones at once: turning booleans into numbers takes longer than all the rest.
        return torch.relu(self.values).sum(), torch.gt(values, 0, out=above).sum()

    def lowest(self, keep: float) -> Terms:
        """The same costs, of which only the lowest fraction exists; at least one does if any did."""
        mask = self.mask.bool()
        flat = self.values.detach().masked_fill(~mask, torch.inf).flatten()
        number = (mask.sum() * keep).round().clamp_min(1)
        chosen = torch.arange(len(flat), device=flat.device) < number
        kept = torch.zeros_like(chosen).scatter_(0, flat.argsort(stable=True), chosen)
        mask = mask & kept.view_as(mask)
        return self._replace(values=torch.where(mask, self.values, 0), which=mask)


def total_mean(terms: list[Terms]) -> Tensor:
    """The sum of the averages."""
    first, *others = (single.mean() for single in terms)
    return sum(others, first)


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
        return total_mean(self.terms(embeddings, labels, tuples, generator))


def require_positive(**values: float) -> None:
    """Refuse a scale, temperature or sharpness that is not above zero."""
    for name, value in values.items():
        if not value > 0:
            raise RecipeError(f"{name} must be above zero, got {value}")
