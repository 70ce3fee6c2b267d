"""The contract of a miner, and the registry of the family."""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from typing import Any, ClassVar

from torch import Generator, Tensor

from holdfast.configurable import Configurable
from holdfast.mining.batch import MiningBatch
from holdfast.mining.tuples import Pairs, Recalled, Tuples
from holdfast.registry import Registry


class Miner(Configurable, ABC):
    """Chooses the pairs or triplets of a batch to learn from.

    A miner never loops in Python over anchors, never returns the anchor as its own positive (but for the published
    variant of `softhard`), and returns its indices on the device of the embeddings.
    """

    triplets: bool = True
    """Whether it mines triplets; otherwise pairs."""

    has_masks: ClassVar[bool] = False
    """Whether `masks` says what a call does; not of a subclass with another `__call__` and no masks of its own."""

    def __eq__(self, other: object) -> bool:
        """Whether the other is of the same class with the same arguments."""
        return type(self) is type(other) and vars(self) == vars(other)

    def __hash__(self) -> int:
        """By class, which equal miners share."""
        return hash(type(self))

    @abstractmethod
    def __call__(
        self,
        embeddings: Tensor,
        labels: Tensor,
        generator: Generator | None = None,
        images: Tensor | None = None,
        recalled: Recalled | None = None,
    ) -> Tuples:
        """Mine a batch.

        Args:
            embeddings: vectors of shape (n, dim); no gradient is taken through mining.
            labels: integers of shape (n,), or a boolean n × n relevance matrix.
            generator: source of every random draw; torch's global one when left out.
            images: which image each row shows, integers of shape (n,). A class with too few images is sampled with
                repeats, and copies of one image are no positives of each other. Every row shows another image when
                left out.
            recalled: a memory to mine in: anchors are rows of the batch, positives and negatives are rows of the
                memory, whose last rows are the batch. The batch itself when left out; a miner that does not take
                this argument goes with every loss that has no memory.
        """

    def masks(self, batch: MiningBatch) -> tuple[Tensor, Tensor] | None:
        """The positive and negative pairs it chooses as masks, for losses that need no list of them.

        None where it cannot say so: losses then call it for its tuples.
        """
        return None

    def pairs(self, batch: MiningBatch) -> Pairs:
        """The pairs of its masks as indices, anchor by anchor."""
        chosen = self.masks(batch)
        assert chosen is not None
        positive, negative = chosen
        anchor, other = (positive | negative).nonzero(as_tuple=True)
        return Pairs(anchor, other, positive[anchor, other])

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if {"masks", "__call__"} & set(vars(cls)):
            cls.has_masks = "masks" in vars(cls)
        try:
            inspect.signature(cls.__call__).bind("self", "embeddings", "labels", "generator", "images")
        except TypeError as error:
            wanted = "(embeddings, labels, generator=None, images=None)"
            raise TypeError(f"{cls.__name__}.__call__ must take {wanted}: {error}") from error


registry: Registry[Miner] = Registry("miner", Miner, "holdfast.mining")
register = registry.register
