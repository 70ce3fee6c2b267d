"""Max-pooled features beside the average-pooled ones, for losses that learn from both."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from holdfast.errors import ModelError

POOL = "global_pool"
"""What timm calls the last pooling of a network."""


class AverageAndMax(nn.Module):
    """A network's own average pooling, and behind its features the largest value of each map.

    Args:
        average: pools maps (B, F, H, W) to (B, F).
    """

    def __init__(self, average: nn.Module) -> None:
        super().__init__()
        self.average = average

    def forward(self, maps: Tensor) -> Tensor:
        """Maps (B, F, H, W) to (B, 2 F)."""
        return torch.cat([self.average(maps), maps.amax((2, 3))], dim=1)


def add_max_pooling(backbone: nn.Module) -> None:
    """Let a backbone return both; its parameters stay as they are."""
    pool = getattr(backbone, POOL, None)
    if not isinstance(getattr(pool, "pool", None), nn.AdaptiveAvgPool2d):
        raise ModelError(
            "this backbone does not end in timm's average pooling, beside which features could be max-pooled; "
            "use pooling: average, or a backbone such as resnet50"
        )
    setattr(backbone, POOL, AverageAndMax(pool))  # type: ignore[arg-type]
