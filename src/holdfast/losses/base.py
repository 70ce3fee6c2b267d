"""The contract of a loss and the registry of the family."""

from __future__ import annotations

from abc import abstractmethod
from typing import ClassVar, NamedTuple

from torch import Generator, Tensor, nn

from holdfast.mining.base import Miner
from holdfast.mining.tuples import Tuples
from holdfast.registry import Registry


class Encoded(NamedTuple):
    """A batch after the model.

    Args:
        z: embeddings.
        pooled: the features they come from.
        labels: classes.
        numbers: which image each row shows; every row another one where that is not known.
    """

    z: Tensor
    pooled: Tensor
    labels: Tensor
    numbers: Tensor | None = None

    def rows(self, which: slice) -> Encoded:
        """A part of the batch."""
        return Encoded(*(None if column is None else column[which] for column in self))  # type: ignore[arg-type]


class Loss(nn.Module):
    """What a batch of embeddings costs: `loss(embeddings, labels)`.

    Without `tuples` a loss learns on what its own `miner` returns, or on all pairs; with `tuples` on exactly those.
    Losses may own parameters: training optimises, saves and resumes them.
    """

    exact: ClassVar[bool] = True
    """Whether the gradient is the derivative of the value; not where parts of it are held constant or set directly."""

    max_pooled: bool = False
    """Whether it learns from max-pooled features too, so that training has the model add them to the pooled ones."""

    def __init__(self, miner: Miner | None = None) -> None:
        super().__init__()
        self.miner = miner

    @property
    def on_triplets(self) -> bool:
        """Whether it learns from single triplets, so that regimes that move triplets give it those."""
        return False

    @abstractmethod
    def forward(
        self, embeddings: Tensor, labels: Tensor, tuples: Tuples | None = None, generator: Generator | None = None
    ) -> Tensor:
        """The scalar cost.

        Args:
            embeddings: vectors of shape (n, dim).
            labels: integers of shape (n,), or a boolean n × n relevance matrix.
            tuples: triplets or pairs mined elsewhere.
            generator: passed to the loss's own miner.
        """

    def batch_cost(self, encoded: Encoded, tuples: Tuples | None, generator: Generator | None, step: int) -> Tensor:
        """The scalar cost in training: `forward`, with tuples that were mined in the knowledge of image numbers.

        Args:
            encoded: what the model made of a batch.
            tuples: triplets or pairs mined elsewhere.
            generator: passed to the loss's own miner.
            step: of training, for costs that start later.
        """
        if tuples is None and self.miner is not None:
            tuples = self.miner(encoded.z, encoded.labels, generator, encoded.numbers)
        cost: Tensor = self(encoded.z, encoded.labels, tuples, generator)
        return cost


registry: Registry[Loss] = Registry("loss", Loss, "holdfast.losses", "holdfast.gradients")
register = registry.register
