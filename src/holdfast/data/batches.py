"""Batches of P classes with K images each, or of pairs in which every image is an anchor."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Literal, TypeAlias

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor
from torch.utils import data

from holdfast.errors import DataError, plural
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


class Batches(ABC):
    """Row indices of the batches of an epoch, a pure function of (seed, epoch); classes stand side by side.

    Args:
        labels: class of each row.
        classes: how many times a batch holds images of one class, over all groups and processes.
        per_class: images of each.
        seed: of the run.
        groups: equal parts of a batch that are learnt apart.
    """

    def __init__(self, labels: ArrayLike | Tensor, classes: int, per_class: int, seed: int, groups: int = 1) -> None:
        if classes < 1 or per_class < 1:
            raise DataError(f"batch.classes and batch.per_class must be positive, got {classes} and {per_class}")
        if classes % groups:
            raise DataError(f"batch.classes ({classes}) must be a multiple of the {groups} groups")
        self.classes, self.per_class, self.seed, self.groups = classes, per_class, seed, groups
        self.epoch = 0
        labels = labels.cpu() if isinstance(labels, Tensor) else labels
        _, self._codes = np.unique(np.asarray(labels), return_inverse=True)
        order = np.argsort(self._codes, kind="stable")
        self._rows = np.split(order, np.cumsum(np.bincount(self._codes))[:-1])
        self.check()

    def __repr__(self) -> str:
        parts = ", ".join(f"{name}={getattr(self, name)}" for name in ("classes", "per_class", "seed", "groups"))
        return f"{type(self).__name__}({plural(len(self._codes), 'image')}, {parts})"

    @abstractmethod
    def check(self) -> None:
        """Refuse a batch that cannot be made of these labels."""

    def set_epoch(self, epoch: int) -> None:
        """Choose whose batches the next iteration gives."""
        self.epoch = epoch

    @abstractmethod
    def __len__(self) -> int: ...

    @abstractmethod
    def deal(self, rng: np.random.Generator) -> Iterator[NDArray[np.int64]]:
        """The batches of an epoch, given its own source of randomness."""

    def __iter__(self) -> Iterator[Tensor]:
        for batch in self.deal(np.random.default_rng(derive(self.seed, self.epoch, "batches"))):
            yield torch.from_numpy(batch)


class ClassBatches(Batches):
    """Row indices of batches with `classes` classes and `per_class` images of each, side by side.

    Every epoch deals the classes from a shuffled deck, so each comes up at least once, and the images of a class from
    a deck of its own, so none comes up again before the others have. A class with fewer than `per_class` images
    repeats some. An epoch has max(ceil(C / P), N // (P·K)) batches: about one pass over the images, and at least one
    over the classes.

    Classes differ within each group, and may come back in the next.
    """

    def check(self) -> None:
        """Each group has classes that differ."""
        at_once = self.classes // self.groups
        if len(self._rows) < at_once:
            few = f"only {plural(len(self._rows), 'class')} for batches of {at_once}"
            raise DataError(f"{few}; lower classes (in a recipe, batch.classes)")

    def __len__(self) -> int:
        return max(-(-len(self._rows) // self.classes), len(self._codes) // (self.classes * self.per_class))

    def deal(self, rng: np.random.Generator) -> Iterator[NDArray[np.int64]]:
        """Classes from a deck, and the images of each from a deck of its own."""
        deck = Deck(np.arange(len(self._rows)), rng)
        images: dict[int, Deck] = {}
        for _ in range(len(self)):
            batch = []
            for label in np.concatenate([deck.deal(self.classes // self.groups) for _ in range(self.groups)]):
                if label not in images:
                    images[label] = Deck(self._rows[label], rng)
                batch.append(images[label].deal(self.per_class))
            yield np.concatenate(batch)


class PairBatches(Batches):
    """Row indices of batches of `classes` pairs: an anchor, and an image drawn from its class.

    Every epoch deals all images as anchors from a shuffled deck, so an epoch has ceil(N / P) batches, and the last is
    filled up with anchors that come again. Pairs of a batch may share a class, and an image may be its own partner,
    as in the released batches of hardness manipulation.
    """

    def check(self) -> None:
        """A pair has two images."""
        if self.per_class != 2:
            raise DataError(f"pairs have two images; set batch.per_class: 2, not {self.per_class}")

    def __len__(self) -> int:
        return -(-len(self._codes) // self.classes)

    def deal(self, rng: np.random.Generator) -> Iterator[NDArray[np.int64]]:
        """Anchors from a deck, partners by chance."""
        deck = Deck(np.arange(len(self._codes)), rng)
        for _ in range(len(self)):
            anchors = np.concatenate([deck.deal(self.classes // self.groups) for _ in range(self.groups)])
            partners = [rng.choice(self._rows[self._codes[anchor]]) for anchor in anchors]
            yield np.stack((anchors, partners), 1).ravel()


class ClassBalancedBatchSampler(data.Sampler[list[int]]):
    """The batches of training for a `DataLoader`: `DataLoader(dataset, batch_sampler=ClassBalancedBatchSampler(...))`.

    Each batch has `classes` classes with `per_class` images of each, side by side, dealt as `ClassBatches` says. Every
    iteration is the next epoch; `set_epoch` chooses one, to resume.

    Args:
        labels: class of each item of the dataset, as a list, an array or a tensor (`dataset.targets` in torchvision).
        classes: classes per batch, over all replicas.
        per_class: images of each.
        seed: of the order; an epoch's batches depend on this and on its number alone.
        num_replicas: processes that share each batch, whole classes each, as in torch's `DistributedSampler`.
        rank: which of them this is.
    """

    def __init__(
        self,
        labels: ArrayLike | Tensor,
        classes: int = 8,
        per_class: int = 4,
        *,
        seed: int = 0,
        num_replicas: int = 1,
        rank: int = 0,
    ) -> None:
        if not 0 <= rank < num_replicas:
            raise DataError(f"rank must lie between 0 and {num_replicas - 1}, got {rank}")
        if classes % num_replicas:
            raise DataError(f"classes ({classes}) must be a multiple of num_replicas ({num_replicas})")
        self._batches = ClassBatches(labels, classes, per_class, seed)
        size = classes // num_replicas * per_class
        self._mine = slice(rank * size, (rank + 1) * size)
        self.epoch = 0

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._batches!r})"

    def set_epoch(self, epoch: int) -> None:
        """Choose whose batches the next iteration gives."""
        self.epoch = epoch

    def __len__(self) -> int:
        return len(self._batches)

    def __iter__(self) -> Iterator[list[int]]:
        self._batches.set_epoch(self.epoch)
        self.epoch += 1
        for rows in self._batches:
            yield rows[self._mine].tolist()


Sampler: TypeAlias = Literal["classes", "pairs"]
SAMPLERS: dict[Sampler, type[Batches]] = {"classes": ClassBatches, "pairs": PairBatches}
