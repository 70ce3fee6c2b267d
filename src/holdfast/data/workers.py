"""Who reads the images of a table: threads or, where many would wait for their turn in one interpreter, processes."""

from __future__ import annotations

import multiprocessing
import os
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import BrokenExecutor, Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import TypeVar

from holdfast.data.pool import SLOT, ProcessPool
from holdfast.data.sources import OpenedSource
from holdfast.data.table import ImageTable
from holdfast.errors import DataError, described
from holdfast.view import View

What = TypeVar("What")
Read = TypeVar("Read")

MANY = 8
"""Threads that are let alone. Sixteen read 977 photographs a second, as many processes of a `torch` DataLoader 3,020;
two are faster than two processes. Between, nothing was measured."""
WORTH = 2048
"""Images of a table for which processes may start: some seconds of reading."""
CHUNK = 64
"""Images of one task, at most."""
OBLONG = 1.5
"""How much longer than wide a photograph usually is, for the room that a set of them will take."""


def default_workers() -> int:
    """One for each core that this process may use; processes on one machine share them."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, min(32, cores // int(os.environ.get("LOCAL_WORLD_SIZE", "1"))))


def processes_pay(table: ImageTable, workers: int) -> bool:
    """Whether workers should be processes: many of them, files that are opened, a system that can copy a process."""
    able = sys.platform == "linux" and not multiprocessing.current_process().daemon
    return able and workers > MANY and len(table) >= WORTH and isinstance(table.source, OpenedSource)


def expected_bytes(view: View) -> float:
    """Of a photograph at a view's canvas, about."""
    return 3 * view.canvas**2 * (OBLONG if view.fit == "crop" else 1)


class Workers:
    """Works on a table in the background; what works take and return travels, so they are small functions of a module.

    A work returns a tuple, first a list of images.

    Args:
        table: the images.
        view: images are resized to its canvas.
        workers: how many; they start when first used.
        processes: rather than threads.
    """

    def __init__(self, table: ImageTable, view: View, workers: int, processes: bool) -> None:
        self.table, self.view, self.workers, self.processes = table, view, workers, processes
        self.images = min(CHUNK, max(1, int(SLOT / expected_bytes(view)))) if processes else CHUNK
        """Of one task, at most."""
        self._threads = ThreadPoolExecutor(workers, thread_name_prefix="decode")
        self.pool: ProcessPool | None = None

    def submit(self, work: Callable[[ImageTable, View, What], Read], what: What) -> Future[Read]:
        """Start on something."""
        with reading():
            if not self.processes:
                return self._threads.submit(work, self.table, self.view, what)
            if self.pool is None:
                self.pool = ProcessPool(self.workers, self.table, self.view)
            return self.pool.submit(work, what)

    def stop(self) -> None:
        """Start on nothing more."""
        self._threads.shutdown(wait=False, cancel_futures=True)
        if self.pool is not None:
            self.pool.stop()


@contextmanager
def reading() -> Iterator[None]:
    """What is no fault of an image; those are told by name."""
    try:
        yield
    except (RuntimeError, SystemExit, BrokenExecutor) as error:
        raise DataError(f"a worker that decodes images died ({described(error)}); start again") from error
