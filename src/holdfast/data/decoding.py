"""Images of a table decoded by workers (workers.py) when they are asked for, or ahead of that."""

from __future__ import annotations

import contextlib
import itertools
from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from functools import partial
from typing import NamedTuple, TypeAlias

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
from holdfast.data.workers import Workers, processes_pay, reading
from holdfast.devices import sent
from holdfast.view import View

AHEAD = 3
"""Batches that are decoded before they are asked for, at most; one that nobody asks for gives way."""

Chunk = tuple[NDArray[np.int64], list[Pixels], dict[int, BadImage]]
"""Rows that could be read, their pixels (height, width, 3), and why others could not."""
ReadChunk: TypeAlias = tuple[list[Pixels], NDArray[np.int64], dict[int, BadImage], dict[int, str]]
"""The same as a worker returns it, pixels first, and by position in the source what is odd about an image."""


class DecodeRequest(NamedTuple):
    """What a batch is asked for: whole images, or what an augmentation shows of them."""

    rows: Tensor
    augment: WindowAugment | None = None
    draws: Tensor | None = None

    def same(self, other: DecodeRequest) -> bool:
        """Whether both ask for the same pixels."""
        if self.augment != other.augment or not torch.equal(self.rows, other.rows):
            return False
        if self.draws is None or other.draws is None:
            return self.draws is other.draws
        return torch.equal(self.draws, other.draws)


class Piece(NamedTuple):
    """What one worker reads of a batch.

    Args:
        rows: of the table.
        augment: whose windows are wanted; whole images when left out.
        draws: of the augmentation, (n, k).
        windows: height, width and window of each image, as far as known.
    """

    rows: NDArray[np.int64]
    augment: WindowAugment | None = None
    draws: NDArray[np.float32] | None = None
    windows: Sequence[tuple[int, int, Window]] = ()


Part: TypeAlias = tuple[list[Pixels], dict[int, tuple[int, int]], dict[int, str]]
"""What became of a piece: the pixels of each image; by row, canvases that were not known, or were others; by position
in the source, what is odd about an image."""


class DecodedBatch(NamedTuple):
    """What workers are at work on.

    Args:
        asked: what for.
        parts: some images each, in order; none of views that threads finish.
        views: what these are written to.
    """

    asked: DecodeRequest
    parts: list[Future[Part]]
    views: Tensor | None


class Decoder:
    """Decodes rows of a table at each use.

    Args:
        table: the images.
        view: images are resized to its canvas.
        device: where images are delivered.
        workers: threads or processes.
    """

    def __init__(self, table: ImageTable, view: View, device: torch.device, workers: int) -> None:
        self.table, self.view, self.device, self.workers = table, view, device, workers
        # On a CPU threads also finish views, in memory that they share.
        self._workers = Workers(table, view, workers, device.type != "cpu" and processes_pay(table, workers))
        self._ahead: deque[DecodedBatch] = deque(maxlen=AHEAD)
        self._shapes = np.zeros((len(table), 2), np.int64)
        """Height and width of images at the canvas, where they are known."""

    def images(self, rows: Tensor) -> RaggedImages:
        """Whole images."""
        return RaggedImages.sent(self._done(self._batch(DecodeRequest(rows.cpu()))), self.device)

    def views(self, rows: Tensor, augment: Augment, draws: Tensor) -> Tensor:
        """What an augmentation shows of some images; of files, no more than that is resized."""
        asked = _asked(rows, augment, draws)
        if asked.augment is None or asked.draws is None:
            return augment.view(self.images(rows), draws)
        batch = self._batch(asked)
        pixels = self._done(batch)
        if batch.views is not None:
            return batch.views
        images = RaggedImages.sent(pixels, self.device)
        return asked.augment.cut(images, images.windows, sent(asked.draws, self.device))

    def prefetch(self, rows: Tensor, augment: Augment | None, draws: Tensor | None) -> None:
        """Start on what `images` or `views` will be asked for."""
        self._ahead.append(self._start(_asked(rows, augment, draws)))

    def _batch(self, asked: DecodeRequest) -> DecodedBatch:
        for number, batch in enumerate(self._ahead):
            if batch.asked.same(asked):
                del self._ahead[number]
                return batch
        return self._start(asked)

    def _done(self, batch: DecodedBatch) -> list[Pixels]:
        """The images of a batch when workers have finished them, and a note of what they found out."""
        found: list[Pixels] = []
        for future in batch.parts:
            with reading():
                pixels, canvases, odd = future.result()
            found += pixels
            for row, canvas in canvases.items():
                self._shapes[row] = canvas
            self.table.source.odd.update(odd)
        return found

    def _start(self, asked: DecodeRequest) -> DecodedBatch:
        count, augment, views = len(asked.rows), asked.augment, None
        threads = self.device.type == "cpu" and not self._workers.processes
        if isinstance(augment, RandomResizedCrop) and threads and resampling.compiled:
            views = augment.empty(count)  # one image at a time on a CPU: work for the threads that decode it
        windows, rows = self._guessed(asked), asked.rows.numpy()
        draws = None if asked.draws is None else asked.draws.numpy()
        number = max(self.workers, -(-count // self._workers.images))
        bounds = [count * part // number for part in range(number + 1)]
        parts = []
        for some in [slice(*piece) for piece in itertools.pairwise(bounds) if piece[0] < piece[1]] or [slice(0, 0)]:
            piece = Piece(rows[some], augment, None if draws is None else draws[some], windows[some])
            work = read_piece if views is None else partial(_finish, views[some])
            parts.append(self._workers.submit(work, piece))
        return DecodedBatch(asked, parts, views)

    def _guessed(self, asked: DecodeRequest) -> list[tuple[int, int, Window]]:
        """Height and width of each image, as far as known, and its window: one call for all costs as much as one."""
        if asked.augment is None or asked.draws is None:
            return []
        shapes = self._shapes[asked.rows.numpy()]
        heights, widths = torch.from_numpy(shapes).unbind(1)
        windows = places(asked.augment.windows(heights, widths, asked.draws))
        return [(height, width, window) for (height, width), window in zip(shapes.tolist(), windows, strict=True)]


def _asked(rows: Tensor, augment: Augment | None, draws: Tensor | None) -> DecodeRequest:
    if isinstance(augment, WindowAugment) and draws is not None and not augment.room:
        return DecodeRequest(rows.cpu(), augment, draws.cpu())
    return DecodeRequest(rows.cpu())


def _finish(views: Tensor, table: ImageTable, view: View, piece: Piece) -> Part:
    """Write views to where they are wanted, and return no pixels."""
    canvases: dict[int, tuple[int, int]] = {}
    assert isinstance(piece.augment, RandomResizedCrop)
    assert piece.draws is not None
    piece.augment.cut_each(_windows(table, view, piece, canvases), torch.from_numpy(piece.draws), views)
    return [], canvases, _odd(table, table.positions[piece.rows].tolist())


def read_piece(table: ImageTable, view: View, piece: Piece) -> Part:
    """The windows of some images that an augmentation needs, or all there is of them."""
    canvases: dict[int, tuple[int, int]] = {}
    positions = table.positions[piece.rows].tolist()
    parts = table.source.images(positions, view) if piece.augment is None else _windows(table, view, piece, canvases)
    return parts, canvases, _odd(table, positions)


def _windows(table: ImageTable, view: View, piece: Piece, canvases: dict[int, tuple[int, int]]) -> list[Pixels]:
    """The window of each image; canvases that were not known are noted."""
    augment, draws, parts = piece.augment, piece.draws, []
    assert augment is not None
    assert draws is not None
    for number, row in enumerate(piece.rows.tolist()):

        def choose(height: int, width: int, number: int = number, row: int = row) -> Window:
            if (height, width) == piece.windows[number][:2]:
                return piece.windows[number][2]
            canvases[row] = height, width
            sides = torch.tensor([height]), torch.tensor([width])
            return places(augment.windows(*sides, torch.from_numpy(draws[number : number + 1])))[0]

        parts.append(table.source.window(int(table.positions[row]), view, choose))
    return parts


def chunks(table: ImageTable, view: View, workers: int, start: int = 0) -> Iterator[Chunk]:
    """The table in order, from a row to its end; only a few chunks are in memory at a time."""
    waiting: deque[Future[ReadChunk]] = deque()
    pool = Workers(table, view, workers, processes_pay(table, workers))
    starts = iter(range(start, len(table), pool.images))
    try:
        while True:
            for first in itertools.islice(starts, 2 * workers - len(waiting)):
                waiting.append(pool.submit(read_chunk, np.arange(first, min(first + pool.images, len(table)))))
            if not waiting:
                return
            with reading():
                pixels, rows, bad, odd = waiting.popleft().result()
            table.source.odd.update(odd)
            yield rows, pixels, bad
    finally:
        pool.stop()


def read_chunk(table: ImageTable, view: View, rows: NDArray[np.int64]) -> ReadChunk:
    """Read some rows; those that cannot be decoded are returned with the reason. Also, what is odd about the others."""
    good: list[int] = []
    pixels: list[Pixels] = []
    bad: dict[int, BadImage] = {}
    positions = table.positions[rows]
    with contextlib.suppress(BadImage):
        return table.source.images(positions, view), rows, bad, _odd(table, positions.tolist())
    for row, position in zip(rows.tolist(), positions.tolist(), strict=True):
        try:
            pixels.append(table.source.image(position, view))
            good.append(row)
        except BadImage as error:
            bad[row] = error
    return pixels, np.array(good, np.int64), bad, _odd(table, positions.tolist())


def _odd(table: ImageTable, positions: list[int]) -> dict[int, str]:
    """What is odd about some images, to be told in another process."""
    odd = table.source.odd
    return {position: odd[position] for position in positions if position in odd} if odd else {}
