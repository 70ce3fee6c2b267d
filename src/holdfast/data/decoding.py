"""Images of a table decoded by threads when they are asked for, or ahead of that."""

from __future__ import annotations

import contextlib
import itertools
import os
from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from holdfast.data import resampling
from holdfast.data.augment import Augment, RandomResizedCrop, WindowAugment
from holdfast.data.ragged import RaggedImages
from holdfast.data.resampling import Pixels, Window, places
from holdfast.data.sources import BadImage
from holdfast.data.table import ImageTable
from holdfast.devices import sent
from holdfast.errors import DataError, described
from holdfast.view import View

CHUNK = 64
AHEAD = 3
"""Batches that are decoded before they are asked for, at most; one that nobody asks for gives way."""

Chunk = tuple[NDArray[np.int64], list[Pixels], dict[int, BadImage]]
"""Rows that could be read, their pixels (height, width, 3), and why others could not."""


def default_workers() -> int:
    """Threads that decode: one for each core that this process may use; processes on one machine share them."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, min(32, cores // int(os.environ.get("LOCAL_WORLD_SIZE", "1"))))


def new_pool(workers: int) -> ThreadPoolExecutor:
    """Threads that start when first used."""
    return ThreadPoolExecutor(workers, thread_name_prefix="decode")


class Asked(NamedTuple):
    """What a batch is asked for: whole images, or what an augmentation shows of them."""

    rows: Tensor
    augment: WindowAugment | None = None
    draws: Tensor | None = None

    def same(self, other: Asked) -> bool:
        """Whether both ask for the same pixels."""
        if self.augment != other.augment or not torch.equal(self.rows, other.rows):
            return False
        if self.draws is None or other.draws is None:
            return self.draws is other.draws
        return torch.equal(self.draws, other.draws)


class Batch(NamedTuple):
    """What threads are at work on.

    Args:
        asked: what for.
        parts: some images each, in order; None of views that the threads finish.
        views: what these are written to.
    """

    asked: Asked
    parts: list[Future[RaggedImages | None]]
    views: Tensor | None

    def done(self) -> list[RaggedImages]:
        """The parts, when the threads have finished them."""
        return [part for each in self.parts if (part := each.result()) is not None]


class Decoder:
    """Decodes rows of a table at each use.

    Args:
        table: the images.
        view: images are resized to its canvas.
        device: where images are delivered.
        workers: threads.
    """

    def __init__(self, table: ImageTable, view: View, device: torch.device, workers: int) -> None:
        self.table, self.view, self.device, self.workers = table, view, device, workers
        self._pool = new_pool(workers)
        self._ahead: deque[Batch] = deque(maxlen=AHEAD)
        self._shapes = np.zeros((len(table), 2), np.int64)
        """Height and width of images at the canvas, where they are known."""

    def images(self, rows: Tensor) -> RaggedImages:
        """Whole images."""
        return RaggedImages.joined(self._batch(Asked(rows.cpu())).done(), self.device)

    def views(self, rows: Tensor, augment: Augment, draws: Tensor) -> Tensor:
        """What an augmentation shows of some images; of files, no more than that is resized."""
        asked = _asked(rows, augment, draws)
        if asked.augment is None or asked.draws is None:
            return augment.view(self.images(rows), draws)
        batch = self._batch(asked)
        parts = batch.done()
        if batch.views is not None:
            return batch.views
        images = RaggedImages.joined(parts, self.device)
        return asked.augment.cut(images, images.windows, sent(asked.draws, self.device))

    def prefetch(self, rows: Tensor, augment: Augment | None, draws: Tensor | None) -> None:
        """Start on what `images` or `views` will be asked for."""
        self._ahead.append(self._start(_asked(rows, augment, draws)))

    def _batch(self, asked: Asked) -> Batch:
        for number, batch in enumerate(self._ahead):
            if batch.asked.same(asked):
                del self._ahead[number]
                return batch
        return self._start(asked)

    def _start(self, asked: Asked) -> Batch:
        count, augment, views = len(asked.rows), asked.augment, None
        if isinstance(augment, RandomResizedCrop) and self.device.type == "cpu" and resampling.compiled:
            views = augment.empty(count)  # one image at a time on a CPU: work for the threads that decode it
        windows = self._guessed(asked)
        bounds = [count * part // self.workers for part in range(self.workers + 1)]
        pieces = [slice(*piece) for piece in itertools.pairwise(bounds) if piece[0] < piece[1]] or [slice(0, 0)]
        return Batch(asked, [self._pool.submit(self._read, asked, windows, piece, views) for piece in pieces], views)

    def _guessed(self, asked: Asked) -> list[tuple[int, int, Window]]:
        """Height and width of each image, as far as known, and its window: one call for all costs as much as one."""
        if asked.augment is None or asked.draws is None:
            return []
        shapes = self._shapes[asked.rows.numpy()]
        heights, widths = torch.from_numpy(shapes).unbind(1)
        windows = places(asked.augment.windows(heights, widths, asked.draws))
        return [(height, width, window) for (height, width), window in zip(shapes.tolist(), windows, strict=True)]

    def _read(
        self, asked: Asked, windows: list[tuple[int, int, Window]], piece: slice, views: Tensor | None
    ) -> RaggedImages | None:
        """Some of what is asked for, in a thread of the pool."""
        rows, augment, pinned = asked.rows[piece].numpy(), asked.augment, self.device.type == "cuda"
        if augment is None or asked.draws is None:
            _, pixels, bad = read_chunk(self.table, rows, self.view)
            if bad:
                raise bad[min(bad)]
            return RaggedImages.of(pixels, pinned=pinned)
        draws = asked.draws[piece]
        parts = self._windows(rows, augment, draws, windows[piece])
        if views is None or not isinstance(augment, RandomResizedCrop):
            return RaggedImages.of(parts, pinned=pinned)
        augment.cut_each(parts, draws, views[piece])
        return None

    def _windows(
        self, rows: NDArray[np.int64], augment: WindowAugment, draws: Tensor, guessed: list[tuple[int, int, Window]]
    ) -> list[Pixels]:
        """The window of each image that an augmentation needs."""
        positions, parts = self.table.positions[rows].tolist(), []
        for number, row in enumerate(rows.tolist()):

            def choose(height: int, width: int, number: int = number, row: int = row) -> Window:
                if (height, width) == guessed[number][:2]:
                    return guessed[number][2]
                self._shapes[row] = height, width
                sides = torch.tensor([height]), torch.tensor([width])
                return places(augment.windows(*sides, draws[number : number + 1]))[0]

            with _thread_errors():
                parts.append(self.table.source.window(positions[number], self.view, choose))
        return parts


def _asked(rows: Tensor, augment: Augment | None, draws: Tensor | None) -> Asked:
    if isinstance(augment, WindowAugment) and draws is not None and not augment.room:
        return Asked(rows.cpu(), augment, draws.cpu())
    return Asked(rows.cpu())


def chunks(table: ImageTable, view: View, workers: int, start: int = 0) -> Iterator[Chunk]:
    """The table in order, from a row to its end; only a few chunks are in memory at a time."""
    starts = iter(range(start, len(table), CHUNK))
    waiting: deque[Future[Chunk]] = deque()
    pool = new_pool(workers)
    try:
        while True:
            for first in itertools.islice(starts, 2 * workers - len(waiting)):
                rows = np.arange(first, min(first + CHUNK, len(table)))
                waiting.append(pool.submit(read_chunk, table, rows, view))
            if not waiting:
                return
            yield waiting.popleft().result()
    finally:
        pool.shutdown(wait=False, cancel_futures=True)


def read_chunk(table: ImageTable, rows: NDArray[np.int64], view: View) -> Chunk:
    """Read some rows; those that cannot be decoded are returned with the reason."""
    good: list[int] = []
    pixels: list[Pixels] = []
    bad: dict[int, BadImage] = {}
    with _thread_errors():
        with contextlib.suppress(BadImage):
            return rows, table.source.images(table.positions[rows], view), bad
        for row in rows.tolist():
            try:
                pixels.append(table.source.image(int(table.positions[row]), view))
                good.append(row)
            except BadImage as error:
                bad[row] = error
    return np.array(good, np.int64), pixels, bad


@contextlib.contextmanager
def _thread_errors() -> Iterator[None]:
    """What is no fault of an image; those are told by name."""
    try:
        yield
    except (RuntimeError, SystemExit) as error:
        raise DataError(f"a thread that decodes images died ({described(error)}); start again") from error
