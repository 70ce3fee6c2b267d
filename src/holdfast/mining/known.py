"""What the host knows of a batch, so that no device has to be asked."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import NamedTuple

import numpy as np
from torch import Tensor


class BatchFacts(NamedTuple):
    """What class and image numbers, looked at before they go to a device, say of a batch.

    Args:
        classes: how many there are, where all batches of a training have that many.
        complete: every row has a positive and a negative.
        distinct: and a positive that shows another image.
        paired: the rows (0, 1), (2, 3), ... share a class each.
    """

    classes: int | None
    complete: bool
    distinct: bool
    paired: bool

    @classmethod
    def of(cls, labels: Tensor, images: Tensor) -> BatchFacts:
        """Of class numbers and image numbers that are on the host."""
        own = labels.numpy()
        _, once = np.unique(images.numpy(), return_index=True)
        rows, shown = (np.unique(found, return_counts=True)[1] for found in (own, own[once]))
        complete, distinct = (len(counts) > 1 and bool(counts.min() > 1) for counts in (rows, shown))
        return cls(len(rows), complete, distinct, len(own) % 2 == 0 and bool((own[0::2] == own[1::2]).all()))

    @classmethod
    def of_all(cls, batches: Iterable[BatchFacts]) -> BatchFacts:
        """What is so in each of some batches."""
        classes, *others = (set(values) for values in zip(*batches, strict=True))
        return cls(classes.pop() if len(classes) == 1 else None, *(values == {True} for values in others))


_batch: ContextVar[tuple[Tensor, BatchFacts | None] | None] = ContextVar("batch", default=None)


@contextmanager
def training_batch(labels: Tensor, known: BatchFacts | None) -> Iterator[None]:
    """In the block, labels and rows are training's own, which need no check, and this much is known of a batch.

    Args:
        labels: of the batch: this very tensor, not another of the same values.
        known: what the host knows of them, if anything.
    """
    before = _batch.set((labels, known))
    try:
        yield
    finally:
        _batch.reset(before)


def in_training() -> bool:
    """Whether a step of training is under way; its labels and rows were checked before they went to the device."""
    return _batch.get() is not None


def known_of(labels: Tensor) -> BatchFacts | None:
    """What is known of a batch with these labels; None: ask its device."""
    found = _batch.get()
    return found[1] if found is not None and found[0] is labels else None
