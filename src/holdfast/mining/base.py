"""The contract of a miner and the registry of the family."""

from __future__ import annotations

from abc import ABC, abstractmethod

from torch import Generator, Tensor

from holdfast.mining.tuples import Tuples
from holdfast.registry import Registry


class Miner(ABC):
    """Chooses which tuples of a batch learn.

    A miner never loops in Python over anchors, never returns the anchor as its own positive (but for the published
    variant of `softhard`), and returns its indices on the device of the embeddings.
    """

    triplets: bool = True
    """Whether it mines triplets; otherwise pairs."""

    @abstractmethod
    def __call__(self, embeddings: Tensor, labels: Tensor, generator: Generator | None = None) -> Tuples:
        """Mine a batch.

        Args:
            embeddings: vectors of shape (n, dim); no gradient is taken through mining.
            labels: integers of shape (n,), or a boolean n × n relevance matrix.
            generator: source of every random draw; torch's global one when left out.
        """


registry: Registry[Miner] = Registry("miner", Miner, "holdfast.mining")
register = registry.register
