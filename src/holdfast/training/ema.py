"""Weight averaging."""

from __future__ import annotations

import copy

import torch
from torch import nn


class Average:
    """An exponential moving average of a model's weights; buffers (BatchNorm statistics) are copied.

    Args:
        model: the model that trains.
        decay: weight of the past, e.g. 0.999.
    """

    def __init__(self, model: nn.Module, decay: float) -> None:
        self.model = copy.deepcopy(model).requires_grad_(False)
        self._decay = decay

    @torch.no_grad()
    def update(self, model: nn.Module) -> None:
        """Move the average towards the model's present weights."""
        for mine, theirs in zip(self.model.parameters(), model.parameters(), strict=True):
            mine.lerp_(theirs.detach(), 1 - self._decay)
        for own, present in zip(self.model.buffers(), model.buffers(), strict=True):
            own.copy_(present)
