"""Who reads the images of a table: threads or, where many would wait for their turn in one interpreter, processes."""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import BrokenExecutor, Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any, TypeVar

import torch

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
WATCH = 1.0
"""Seconds between two looks whether the process for which these read is still there."""

_mine: tuple[ImageTable, View] | None = None
"""In a process that reads: for whom."""


def default_workers() -> int:
    """One for each core that this process may use; processes on one machine share them."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, min(32, cores // int(os.environ.get("LOCAL_WORLD_SIZE", "1"))))


def processes_pay(table: ImageTable, workers: int) -> bool:
    """Whether workers should be processes: many of them, files that are opened, a system that can copy a process."""
    able = sys.platform == "linux" and not multiprocessing.current_process().daemon
    return able and workers > MANY and len(table) >= WORTH and isinstance(table.source, OpenedSource)


class Workers:
    """Works on a table in the background; what works take and return travels, so they are small functions of a module.

    Args:
        table: the images.
        view: images are resized to its canvas.
        workers: how many; they start when first used.
        processes: rather than threads.
    """

    def __init__(self, table: ImageTable, view: View, workers: int, processes: bool) -> None:
        self.table, self.view, self.processes = table, view, processes
        # Copies of this process, as a `torch` DataLoader has them: nothing is imported again, and no script of a user
        # without a guard around its main part runs twice.
        self._pool: Executor = (
            ProcessPoolExecutor(
                workers, multiprocessing.get_context("fork"), initializer=_begin, initargs=(table, view, os.getpid())
            )
            if processes
            else ThreadPoolExecutor(workers, thread_name_prefix="decode")
        )

    def submit(self, work: Callable[[ImageTable, View, What], Read], what: What) -> Future[Read]:
        """Start on something."""
        with reading():
            if self.processes:
                return self._pool.submit(_do, work, what)
            return self._pool.submit(work, self.table, self.view, what)

    def stop(self) -> None:
        """Start on nothing more."""
        self._pool.shutdown(wait=False, cancel_futures=True)


@contextmanager
def reading() -> Iterator[None]:
    """What is no fault of an image; those are told by name."""
    try:
        yield
    except (RuntimeError, SystemExit, BrokenExecutor) as error:
        raise DataError(f"a worker that decodes images died ({described(error)}); start again") from error


def _begin(table: ImageTable, view: View, parent: int) -> None:
    """In a new process: the parent decides when to stop, and nobody reads for one that is gone."""
    global _mine
    _mine = table, view
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    torch.set_num_threads(1)
    threading.Thread(target=_watch, args=(parent,), daemon=True).start()


def _watch(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(WATCH)
    os._exit(1)


def _do(work: Callable[[ImageTable, View, Any], Read], what: Any) -> Read:
    assert _mine is not None
    return work(*_mine, what)
