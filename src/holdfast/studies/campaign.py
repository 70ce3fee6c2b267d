"""Many cells: which are left, who does them, and how they are shared out."""

from __future__ import annotations

import dataclasses
import os
import re
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import get_context
from typing import Any

from tqdm import tqdm

from holdfast.console import Console
from holdfast.errors import HoldfastError
from holdfast.studies.jobs import Cell, Measure, Training
from holdfast.studies.running import Places, run_cell
from holdfast.studies.store import Store, measure_key

DIED = "its process was killed (out of memory?); run the same command, it goes on"


def distinct(cells: Sequence[Cell]) -> list[Cell]:
    """Each training and computation once, in the order first asked for, with all measures that anyone asks for."""
    joined: dict[str, Cell] = {}
    for cell in cells:
        known = joined.setdefault(cell.key, cell)
        measures: dict[str, Measure] = {measure_key(m): m for c in (known, cell) for m in c.job.measures}
        if isinstance(known.job, Training) and len(measures) > len(known.job.measures):
            job = dataclasses.replace(known.job, measures=tuple(measures.values()))
            joined[cell.key] = dataclasses.replace(known, job=job)
    return list(joined.values())


def part_of(cells: Sequence[Cell], part: str) -> list[Cell]:
    """The share of one of several machines: `2/4` is every fourth cell from the second.

    The shares depend on the cells alone, not on what is done already, so machines need not know of each other.
    """
    match = re.fullmatch(r"(\d+)/(\d+)", part)
    number, parts = (int(match[1]), int(match[2])) if match else (0, 0)
    if not 1 <= number <= parts:
        raise HoldfastError(f"--part takes N/M with N from 1 to M, such as 2/4, got '{part}'")
    return distinct(cells)[number - 1 :: parts]


def run_cells(
    cells: Sequence[Cell],
    store: Store,
    places: Places,
    jobs: int = 1,
    console: Console | None = None,
    deadline: float | None = None,
) -> dict[str, str]:
    """Run what is left of some cells; returns cell → why it could not be run, for those that could not.

    A cell that fails does not stop the others: what is finished is filed, and the same command tries the rest again.

    Args:
        cells: in the order of their importance.
        store: what is done already, and where results go.
        places: of datasets and weights.
        jobs: cells side by side, each in a process of its own if more than one.
        console: shows progress if given.
        deadline: no cell is begun after this time (`time.monotonic()`, which no change of the clock moves).
    """
    console = console or Console(quiet=True)
    starts = [cell.job.first(cell.seed) for cell in cells if isinstance(cell.job, Training) and not store.done(cell)]
    before = [cell for cell in starts if cell is not None]
    # Before all others, so that no two processes train the start they share.
    failed: dict[str, str] = run_cells(before, store, places, jobs, console, deadline) if before else {}
    left: list[Cell] = []
    for cell in distinct(cells):
        lacks = places.lacks(cell)
        if store.done(cell):
            continue
        if lacks:
            failed[cell.key] = f"needs {lacks}"
        else:
            left.append(cell)
    with console.bar(len(left), unit="cell", what="cells") as bar:
        if jobs == 1:
            for cell in left:
                if deadline is not None and time.monotonic() > deadline:
                    break
                try:
                    run_cell(cell, store, places)
                except HoldfastError as error:
                    failed[cell.key] = str(error)
                bar.update()
            return failed
        os.environ.setdefault("OMP_NUM_THREADS", str(max(1, (os.cpu_count() or 1) // jobs)))
        queue = iter(left)
        more = True
        while more:
            with ProcessPoolExecutor(jobs, mp_context=get_context("spawn")) as pool:
                more = _share(pool, queue, jobs, store, places, failed, bar, deadline)
    return failed


def _share(
    pool: ProcessPoolExecutor,
    queue: Iterator[Cell],
    jobs: int,
    store: Store,
    places: Places,
    failed: dict[str, str],
    bar: tqdm[Any],
    deadline: float | None,
) -> bool:
    """Let a pool work through a queue of cells; whether a worker died and another pool must do the rest."""
    waiting: dict[Future[None], Cell] = {}
    more, broken = True, False
    while (more and not broken) or waiting:
        while more and not broken and len(waiting) < jobs:
            following = next(queue, None)
            more = following is not None and (deadline is None or time.monotonic() <= deadline)
            if following is not None and more:
                try:
                    waiting[pool.submit(run_cell, following, store, places)] = following
                except BrokenProcessPool:
                    failed[following.key] = DIED
                    broken = True
        for future in wait(waiting, return_when=FIRST_COMPLETED).done if waiting else ():
            cell = waiting.pop(future)
            try:
                future.result()
            except HoldfastError as error:
                failed[cell.key] = str(error)
            except BrokenProcessPool:  # one was killed, and takes those beside it along
                failed[cell.key] = DIED
                broken = True
            bar.update()
    return more and broken
