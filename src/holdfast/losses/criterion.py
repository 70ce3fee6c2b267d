"""A loss over everything the model returns for a batch."""

from __future__ import annotations

from abc import abstractmethod
from typing import NamedTuple

from torch import Generator, Tensor, nn

from holdfast.losses.base import Loss
from holdfast.mining.tuples import Tuples


class Encoded(NamedTuple):
    """A batch after the model: embeddings, the pooled features they come from, and labels."""

    z: Tensor
    pooled: Tensor
    labels: Tensor


class PooledLoss(Loss):
    """A loss that also learns on the pooled features and owns what it needs for that.

    Called on embeddings alone it is a plain loss.
    """

    @abstractmethod
    def cost(self, encoded: Encoded, tuples: Tuples | None, generator: Generator | None, step: int) -> Tensor:
        """The scalar cost of an encoded batch; arguments as in `Criterion`."""


class Criterion(nn.Module):
    """What training minimises on an encoded batch: the loss of its embeddings, or of its pooled features too."""

    def __init__(self, loss: Loss) -> None:
        super().__init__()
        self.loss = loss

    def forward(
        self, encoded: Encoded, tuples: Tuples | None = None, generator: Generator | None = None, step: int = 0
    ) -> Tensor:
        """The scalar cost.

        Args:
            encoded: what the model made of a batch.
            tuples: triplets or pairs mined elsewhere.
            generator: passed to the loss's own miner.
            step: of training, for costs that start later.
        """
        if isinstance(self.loss, PooledLoss):
            return self.loss.cost(encoded, tuples, generator, step)
        cost: Tensor = self.loss(encoded.z, encoded.labels, tuples, generator)
        return cost
