"""The contract of a miner, what miners return, and the registry of the family."""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from typing import Any, NamedTuple, TypeAlias

from torch import Generator, Tensor

from holdfast.configurable import Configurable
from holdfast.registry import Registry


class Triplets(NamedTuple):
    """Indices of anchor, positive and negative, one row each per triplet."""

    anchor: Tensor
    positive: Tensor
    negative: Tensor


class Pairs(NamedTuple):
    """Indices of two images and whether they share a class."""

    anchor: Tensor
    other: Tensor
    same: Tensor


Tuples: TypeAlias = Triplets | Pairs


class Miner(Configurable, ABC):
    """Chooses the pairs or triplets of a batch to learn from.

    A miner never loops in Python over anchors, never returns the anchor as its own positive (but for the published
    variant of `softhard`), and returns its indices on the device of the embeddings.
    """

    triplets: bool = True
    """Whether it mines triplets; otherwise pairs."""

    def __eq__(self, other: object) -> bool:
        """Whether the other is of the same class with the same arguments."""
        return type(self) is type(other) and vars(self) == vars(other)

    def __hash__(self) -> int:
        """By class, which equal miners share."""
        return hash(type(self))

    @abstractmethod
    def __call__(
        self, embeddings: Tensor, labels: Tensor, generator: Generator | None = None, images: Tensor | None = None
    ) -> Tuples:
        """Mine a batch.

        Args:
            embeddings: vectors of shape (n, dim); no gradient is taken through mining.
            labels: integers of shape (n,), or a boolean n × n relevance matrix.
            generator: source of every random draw; torch's global one when left out.
            images: which image each row shows, integers of shape (n,). A class with too few images is sampled with
                repeats, and copies of one image are no positives of each other. Every row shows another image when
                left out.
        """

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        try:
            inspect.signature(cls.__call__).bind("self", "embeddings", "labels", "generator", "images")
        except TypeError as error:
            wanted = "(embeddings, labels, generator=None, images=None)"
            raise TypeError(f"{cls.__name__}.__call__ must take {wanted}: {error}") from error


registry: Registry[Miner] = Registry("miner", Miner, "holdfast.mining")
register = registry.register
