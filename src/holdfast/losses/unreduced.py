"""Losses before they are averaged."""

from __future__ import annotations

import math
from abc import abstractmethod
from typing import NamedTuple

import torch
from torch import Generator, Tensor

from holdfast.errors import RecipeError
from holdfast.losses.base import Loss
from holdfast.mining import IndicesTuple
from holdfast.pair_matrix import weights
from holdfast.sphere import Mask


class Unreduced(NamedTuple):
    """Single losses before their mean: one per triplet, pair, anchor or image, as the loss says.

    Args:
        values: the losses; anything finite where the mask is not set.
        mask: which of them exist, or numbers that say how often each counts; all, once, when left out.
        active: average only over losses above zero.
    """

    values: Tensor
    mask: Mask | None = None
    active: bool = False

    def mean(self) -> Tensor:
        """The average; zero, still with a graph, when there is none."""
        if self.mask is None and not self.active:
            return self.values.mean() if self.values.numel() else self.values.sum()
        values = self.values
        if self.mask is not None:
            exists = weights(self.mask, values.dtype)
            values = values * exists
        if self.active:
            values = values.relu()
        if not self.active:
            number = exists.sum()
        elif self.mask is None or self.mask.dtype == torch.bool:
            number = values.detach().count_nonzero()
        else:
            number = (exists * (values.detach() > 0)).sum()
        return values.sum() / number.clamp_min(1)

    def lowest(self, keep: float) -> Unreduced:
        """The same losses, of which only the lowest fraction exists; at least one does if any did."""
        mask = torch.ones_like(self.values, dtype=torch.bool) if self.mask is None else self.mask
        exists = mask.bool()
        flat = self.values.detach().masked_fill(~exists, torch.inf).flatten()
        number = (exists.sum() * keep).round().clamp_min(1)
        chosen = torch.arange(len(flat), device=flat.device) < number
        kept = torch.zeros_like(chosen).scatter_(0, flat.argsort(stable=True), chosen)
        return self._replace(mask=mask * kept.view_as(mask))


def total_mean(losses: list[Unreduced]) -> Tensor:
    """The sum of the averages."""
    first, *others = (single.mean() for single in losses)
    return sum(others, first)


class AveragedLoss(Loss):
    """A loss that is a sum of averages, whose single losses can be asked for."""

    @abstractmethod
    def unreduced(
        self, embeddings: Tensor, labels: Tensor, tuples: IndicesTuple | None = None, generator: Generator | None = None
    ) -> list[Unreduced]:
        """The losses behind each average; arguments as in `forward`."""

    def forward(
        self, embeddings: Tensor, labels: Tensor, tuples: IndicesTuple | None = None, generator: Generator | None = None
    ) -> Tensor:
        """The sum of the averages."""
        return total_mean(self.unreduced(embeddings, labels, tuples, generator))


def masked_logsumexp(values: Tensor, mask: Mask, scale: float = 1.0) -> Tensor:
    """Row by row log Σ exp(scale v) over the entries whose mask is set, or of each as often as a number says.

    Hugely negative for an empty row; `softplus` of it is `log(1 + Σ exp)`, whose gradient is zero there. The results of
    two empty rows can still be added.
    """
    if not values.numel():
        return values.sum(1)
    # In place, and unlike `Tensor.logsumexp` with one exponential for both directions.
    lowest = torch.finfo(values.dtype).min / 4
    times = weights(~mask, values.dtype).mul_(lowest) if mask.dtype == torch.bool else mask.log().clamp_min_(lowest)
    add = torch.add if torch._C._are_functorch_transforms_active() else Tensor.add_  # one mask may serve many batches
    exponents = add(times, values, alpha=scale)
    top = exponents.detach().amax(1, keepdim=True)
    return exponents.sub_(top).exp_().sum(1, keepdim=True).log_().add_(top).squeeze(1)


def require_positive(**values: float) -> None:
    """Refuse a scale, temperature or sharpness that is not above zero."""
    for name, value in values.items():
        if not 0 < value < math.inf:
            raise RecipeError(f"{name} must be above zero, got {value}")
