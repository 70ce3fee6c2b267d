"""Batches of P classes with K images each."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from holdfast.errors import DataError
from holdfast.seeds import derive


class Deck:
    """Deals items without replacement and reshuffles when they run out.

    A hand of n holds n different items wherever there are that many; from fewer, items repeat as evenly as they can.
    """

    def __init__(self, items: NDArray[np.int64], rng: np.random.Generator) -> None:
        self._items, self._rng = items, rng
        self._left = rng.permutation(items)

    def deal(self, count: int) -> NDArray[np.int64]:
        """The next `count` items."""
        hand, self._left = self._left[:count], self._left[count:]
        while len(hand) < count:
            fresh = self._rng.permutation(self._items)
            times = (fresh[:, None] == hand).sum(1)
            order = fresh[np.argsort(times, kind="stable")]  # those that the hand already holds wait
            wanted = count - len(hand)
            hand, self._left = np.concatenate((hand, order[:wanted])), order[wanted:]
        return hand


class ClassBatches:
    """Row indices of batches with `classes` classes and `per_class` images of each, side by side.

    Every epoch deals the classes from a shuffled deck, so each comes up at least once, and the images of a class from
    a deck of its own, so none comes up again before the others have. A class with fewer than `per_class` images
    repeats some. An epoch has max(ceil(C / P), N // (P·K)) batches: about one pass over the images, and at least one
    over the classes. Batches are a pure function of (seed, epoch).

    Args:
        labels: class of each row.
        classes: P, classes in a batch, over all groups and processes.
        per_class: K, images of each.
        seed: of the run.
        groups: equal parts of a batch that are learnt apart; classes differ within each, and may come back in the next.
    """

    def __init__(
        self,
        labels: ArrayLike | Tensor,
        classes: int,
        per_class: int,
        seed: int,
        groups: int = 1,
    ) -> None:
        column = np.asarray(labels)
        names, codes = np.unique(column, return_inverse=True)
        if classes < 1 or per_class < 1:
            raise DataError(f"batch.classes and batch.per_class must be positive, got {classes} and {per_class}")
        if classes % groups:
            raise DataError(f"batch.classes ({classes}) must be a multiple of the {groups} groups")
        at_once = classes // groups
        if len(names) < at_once:
            raise DataError(
                f"a batch of {at_once} classes needs more than the {len(names)} there are; lower batch.classes"
            )
        self.classes, self.per_class, self.seed = classes, per_class, seed
        self.groups = groups
        self.epoch = 0
        order = np.argsort(codes, kind="stable")
        self._rows = np.split(order, np.cumsum(np.bincount(codes))[:-1])
        self._steps = max(-(-len(names) // classes), len(column) // (classes * per_class))

    def set_epoch(self, epoch: int) -> None:
        """Choose whose batches the next iteration gives."""
        self.epoch = epoch

    def __len__(self) -> int:
        return self._steps

    def __iter__(self) -> Iterator[Tensor]:
        rng = np.random.default_rng(derive(self.seed, self.epoch, "batches"))
        deck = Deck(np.arange(len(self._rows)), rng)
        images: dict[int, Deck] = {}
        for _ in range(self._steps):
            batch = []
            for label in np.concatenate([deck.deal(self.classes // self.groups) for _ in range(self.groups)]):
                if label not in images:
                    images[label] = Deck(self._rows[label], rng)
                batch.append(images[label].deal(self.per_class))
            yield torch.from_numpy(np.concatenate(batch))
