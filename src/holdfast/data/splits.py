"""Class-disjoint splits: what is held out are classes, never images of a class that training sees."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from holdfast.data.table import ImageTable
from holdfast.seeds import derive

FEWEST_VALIDATION = 2
"""With one validation class every neighbour would be a match."""
FEWEST_TRAINING = 4
FEWEST_IMAGES = 2
"""Of a training class: one image alone has no positive."""


def part_of_classes(classes: NDArray[np.int64], share: float, seed: int) -> NDArray[np.int64]:
    """A random share of some classes, rounded to whole ones."""
    count = round(share * len(classes))
    return np.random.default_rng(derive(seed, "classes")).permutation(np.unique(classes))[:count]


def zero_shot(labels: NDArray[np.int64], test: float, seed: int) -> NDArray[np.str_]:
    """ "train" or "test" for each row, a share of the classes in the latter."""
    held_out = part_of_classes(np.unique(labels), test, seed)
    return np.where(np.isin(labels, held_out), "test", "train")


def with_validation(table: ImageTable, share: float, seed: int) -> ImageTable:
    """Move a share of the training classes to `val`.

    A table that already has a `val` split keeps it. At least two classes are moved, and none when fewer than four
    would be left to train on.
    """
    if share == 0 or table.has("val"):
        return table
    train = table.splits == "train"
    classes = np.unique(table.labels[train])
    share = max(share, FEWEST_VALIDATION / max(len(classes), 1))
    held_out = part_of_classes(classes, share, seed)
    if len(classes) - len(held_out) < FEWEST_TRAINING:
        return table
    return table.with_splits(np.where(train & np.isin(table.labels, held_out), "val", table.splits))


def thinned(table: ImageTable, share: float, seed: int) -> ImageTable:
    """Leave out all but a share of the images of each training class; two of each stay, where it has them.

    A smaller share with the same seed is part of a larger one, so that what is added is all that differs.
    """
    if share == 1:
        return table
    train = np.flatnonzero(table.splits == "train")
    labels = table.labels[train]
    shuffled = np.random.default_rng(derive(seed, "images")).permutation(len(train))
    order = shuffled[np.argsort(labels[shuffled], kind="stable")]  # class by class, each in random order
    _, starts, counts = np.unique(labels[order], return_index=True, return_counts=True)
    wanted = np.maximum(FEWEST_IMAGES, np.rint(share * counts))
    kept = np.arange(len(train)) - np.repeat(starts, counts) < np.repeat(wanted, counts)
    chosen = np.concatenate((np.flatnonzero(table.splits != "train"), train[order[kept]]))
    return table.subset(np.sort(chosen))
