"""A loss over everything the model returns for a batch."""

from __future__ import annotations

from torch import Generator, Tensor, nn

from holdfast.losses.base import Encoded, Loss
from holdfast.mining.tuples import Tuples

__all__ = ["Criterion", "Encoded"]


class Criterion(nn.Module):
    """What training minimises on an encoded batch: the loss of its embeddings, or of its pooled features too."""

    def __init__(self, loss: Loss) -> None:
        super().__init__()
        self.loss = loss

    def forward(
        self, encoded: Encoded, tuples: Tuples | None = None, generator: Generator | None = None, step: int = 0
    ) -> Tensor:
        """The scalar cost; arguments as in `Loss.batch_cost`."""
        return self.loss.batch_cost(encoded, tuples, generator, step)
