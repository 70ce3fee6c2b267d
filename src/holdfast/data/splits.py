"""Class-disjoint splits: what is held out are classes, never images of a class that training sees."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from holdfast.data.table import ImageTable
from holdfast.seeds import derive

FEWEST_VALIDATION = 2
"""With one validation class every neighbour would be a match."""
FEWEST_TRAINING = 4
"""Where some are held out for validation."""
FEWEST_CLASSES = 2
"""Of any training."""
FEWEST_IMAGES = 2
"""Of a training class: one image alone has no positive."""


def part_of_classes(classes: NDArray[np.int64], fraction: float, seed: int) -> NDArray[np.int64]:
    """A random fraction of some classes, rounded to whole ones."""
    count = round(fraction * len(classes))
    return np.random.default_rng(derive(seed, "classes")).permutation(np.unique(classes))[:count]


def zero_shot(classes: Sequence[str], test: float, seed: int) -> list[str]:
    """ "train" or "test" for each row, a fraction of the classes in the latter."""
    number = {name: label for label, name in enumerate(dict.fromkeys(classes))}
    held_out = frozenset(part_of_classes(np.arange(len(number)), test, seed).tolist())
    return ["test" if number[name] in held_out else "train" for name in classes]


def to_hold_out(classes: int, fraction: float) -> int:
    """How many of so many training classes a fraction holds out for validation."""
    most = classes - FEWEST_TRAINING
    if fraction == 0 or most < FEWEST_VALIDATION:
        return 0
    return min(max(round(fraction * classes), FEWEST_VALIDATION), most)


def with_validation(table: ImageTable, fraction: float, seed: int) -> ImageTable:
    """Move a fraction of the training classes to `val`.

    A table that already has a `val` split keeps it. At least two classes are moved, and no more than leave four to
    train on; none where both cannot be.
    """
    train = table.splits == "train"
    classes = np.unique(table.labels[train])
    count = to_hold_out(len(classes), fraction)
    if count == 0 or table.has("val"):
        return table
    held_out = part_of_classes(classes, count / len(classes), seed)
    return table.with_splits(np.where(train & np.isin(table.labels, held_out), "val", table.splits))


def thinned(table: ImageTable, fraction: float, seed: int) -> ImageTable:
    """Leave out all but a fraction of the images of each training class; two of each stay, where it has them.

    A smaller fraction with the same seed is part of a larger one, so that what is added is all that differs.
    """
    if fraction == 1:
        return table
    train = np.flatnonzero(table.splits == "train")
    labels = table.labels[train]
    shuffled = np.random.default_rng(derive(seed, "images")).permutation(len(train))
    order = shuffled[np.argsort(labels[shuffled], kind="stable")]  # class by class, each in random order
    _, starts, counts = np.unique(labels[order], return_index=True, return_counts=True)
    wanted = np.maximum(FEWEST_IMAGES, np.rint(fraction * counts))
    kept = np.arange(len(train)) - np.repeat(starts, counts) < np.repeat(wanted, counts)
    chosen = np.concatenate((np.flatnonzero(table.splits != "train"), train[order[kept]]))
    return table.subset(np.sort(chosen))
