"""Decoding many images at once, with threads (Pillow releases Python's lock while it decodes)."""

from __future__ import annotations

import itertools
import os
from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor

import numpy as np
from numpy.typing import NDArray

from holdfast.data.decode import BadImage
from holdfast.data.sources import Pixels
from holdfast.data.table import ImageTable
from holdfast.errors import DataError, described

WORKERS = min(8, os.cpu_count() or 1)
CHUNK = 64

Chunk = tuple[NDArray[np.int64], Pixels, dict[int, BadImage]]
"""Rows that could be read, their pixels (n, size, size, 3), and why others could not."""


def chunks(table: ImageTable, size: int, pool: ThreadPoolExecutor) -> Iterator[Chunk]:
    """The whole table in order; only a few chunks are in memory at a time."""
    starts = iter(range(0, len(table), CHUNK))
    waiting: deque[Future[Chunk]] = deque()
    while True:
        for start in itertools.islice(starts, 2 * WORKERS - len(waiting)):
            rows = np.arange(start, min(start + CHUNK, len(table)))
            waiting.append(pool.submit(read_chunk, table, rows, size))
        if not waiting:
            return
        yield waiting.popleft().result()


def read_chunk(table: ImageTable, rows: NDArray[np.int64], size: int) -> Chunk:
    """Read some rows; those that cannot be decoded are returned with the reason."""
    try:
        return _read(table, rows, size)
    except (RuntimeError, SystemExit) as error:  # no fault of an image: those are told by name
        raise DataError(
            f"a thread that decodes images died ({described(error)}); run the same command again"
        ) from error


def _read(table: ImageTable, rows: NDArray[np.int64], size: int) -> Chunk:
    try:
        return rows, table.source.images(table.positions[rows], size), {}
    except BadImage:
        pass
    good: list[int] = []
    pixels: list[Pixels] = []
    bad: dict[int, BadImage] = {}
    for row in rows.tolist():
        try:
            pixels.append(table.source.image(int(table.positions[row]), size))
            good.append(row)
        except BadImage as error:
            bad[row] = error
    stacked = np.stack(pixels) if pixels else np.empty((0, size, size, 3), np.uint8)
    return np.array(good, np.int64), stacked, bad
