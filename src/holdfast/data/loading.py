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
from holdfast.view import View

WORKERS = min(8, os.cpu_count() or 1)
CHUNK = 64

Chunk = tuple[NDArray[np.int64], list[Pixels], dict[int, BadImage]]
"""Rows that could be read, their pixels (height, width, 3), and why others could not."""


def chunks(table: ImageTable, view: View, pool: ThreadPoolExecutor) -> Iterator[Chunk]:
    """The whole table in order; only a few chunks are in memory at a time."""
    starts = iter(range(0, len(table), CHUNK))
    waiting: deque[Future[Chunk]] = deque()
    while True:
        for start in itertools.islice(starts, 2 * WORKERS - len(waiting)):
            rows = np.arange(start, min(start + CHUNK, len(table)))
            waiting.append(pool.submit(read_chunk, table, rows, view))
        if not waiting:
            return
        yield waiting.popleft().result()


def read_chunk(table: ImageTable, rows: NDArray[np.int64], view: View) -> Chunk:
    """Read some rows; those that cannot be decoded are returned with the reason."""
    try:
        return _read(table, rows, view)
    except (RuntimeError, SystemExit) as error:  # no fault of an image: those are told by name
        raise DataError(
            f"a thread that decodes images died ({described(error)}); run the same command again"
        ) from error


def _read(table: ImageTable, rows: NDArray[np.int64], view: View) -> Chunk:
    try:
        return rows, table.source.images(table.positions[rows], view), {}
    except BadImage:
        pass
    good: list[int] = []
    pixels: list[Pixels] = []
    bad: dict[int, BadImage] = {}
    for row in rows.tolist():
        try:
            pixels.append(table.source.image(int(table.positions[row]), view))
            good.append(row)
        except BadImage as error:
            bad[row] = error
    return np.array(good, np.int64), pixels, bad
