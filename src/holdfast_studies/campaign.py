"""Many cells: which are left, who does them, and how they are shared out."""

from __future__ import annotations

import dataclasses
import itertools
import os
import re
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import get_context

from holdfast import console
from holdfast.errors import HoldfastError, described
from holdfast.training import Interrupted
from holdfast_studies.jobs import Cell, Measure, Training
from holdfast_studies.running import Places, run_cell
from holdfast_studies.store import Store, measure_key

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
    deadline: float | None = None,
) -> dict[str, str]:
    """Run what is left of some cells; returns cell → why it could not be run, for those that could not.

    A cell that fails does not stop the others: what is finished is filed, and the same command tries the rest again.

    Args:
        cells: in the order of their importance.
        store: what is done already, and where results go.
        places: of datasets and weights.
        jobs: cells side by side, each in a process of its own if more than one.
        deadline: no cell is begun after this time (`time.monotonic()`, which no change of the clock moves).
    """
    failed: dict[str, str] = {}
    # Before all others, so that no two processes train the start they share.
    starts = [start for cell in cells if not store.done(cell) and (start := _start(cell)) is not None]
    waiting = [cell for cell in distinct(starts) if not store.done(cell) or not _over(cell, store)]
    if waiting:
        _run(waiting, store, places, jobs, deadline, failed)
    left = [cell for cell in distinct(cells) if not store.done(cell)]
    _run(left, store, places, jobs, deadline, failed)
    return failed


def _start(cell: Cell) -> Cell | None:
    """The training whose model a cell starts from."""
    return cell.job.first(cell.seed) if isinstance(cell.job, Training) else None


def _over(start: Cell, store: Store) -> bool:
    """Whether a start's model is there, or never will be; a record alone may be of another machine."""
    trained = isinstance(start.job, Training) and store.trained(start.job, start.seed)
    return trained or store.stopped(start) is not None


def _run(
    cells: Sequence[Cell],
    store: Store,
    places: Places,
    jobs: int,
    deadline: float | None,
    failed: dict[str, str],
) -> None:
    """Run those cells that can be; `failed` learns of the others."""
    left = []
    for cell in cells:
        start = _start(cell)
        lost = None if start is None else store.stopped(start) or failed.get(start.key)
        if lacks := places.lacks(cell):
            failed[cell.key] = f"needs {lacks}"
        elif lost is not None:
            failed[cell.key] = f"the model it starts from was not trained: {lost}"
        elif start is None or _over(start, store):  # else there was no time for the start
            left.append(cell)
    with console.bar(len(left), unit="cell", what="cells") as bar:
        in_time = itertools.takewhile(lambda _: deadline is None or time.monotonic() <= deadline, left)
        endings = _in_turn(in_time, store, places) if jobs == 1 else _side_by_side(in_time, store, places, jobs)
        for cell, why in endings:
            if why is not None:
                failed[cell.key] = why
            bar.update()


def _in_turn(cells: Iterator[Cell], store: Store, places: Places) -> Iterator[tuple[Cell, str | None]]:
    """Each cell with why it could not be run, None where it was."""
    for cell in cells:
        try:
            with console.shown(False):
                run_cell(cell, store, places)
        except Interrupted:
            raise
        except Exception as error:  # one bad cell must not end a night's work
            yield cell, _line(error)
        else:
            yield cell, None


def _side_by_side(cells: Iterator[Cell], store: Store, places: Places, jobs: int) -> Iterator[tuple[Cell, str | None]]:
    """The same, in processes; where one is killed, a new pool does the rest."""
    os.environ.setdefault("OMP_NUM_THREADS", str(max(1, (os.cpu_count() or 1) // jobs)))
    while (following := next(cells, None)) is not None:
        with ProcessPoolExecutor(jobs, mp_context=get_context("spawn")) as pool:
            yield from _share(pool, itertools.chain([following], cells), store, places, jobs)


def _share(
    pool: ProcessPoolExecutor, cells: Iterator[Cell], store: Store, places: Places, jobs: int
) -> Iterator[tuple[Cell, str | None]]:
    """Let a pool work through cells, the next one taken when a process is free, until all are done or it breaks."""
    running: dict[Future[None], Cell] = {}
    broken = False
    while True:
        for cell in itertools.islice(cells, 0 if broken else jobs - len(running)):
            running[_submit(pool, cell, store, places)] = cell
        if not running:
            return
        for future in wait(running, return_when=FIRST_COMPLETED).done:
            error = future.exception()
            if isinstance(error, Interrupted) or not (error is None or isinstance(error, Exception)):
                raise error
            broken = broken or isinstance(error, BrokenProcessPool)
            yield running.pop(future), None if error is None else _line(error)


def _submit(pool: ProcessPoolExecutor, cell: Cell, store: Store, places: Places) -> Future[None]:
    """The cell's future; a pool that broke a moment ago gives one that has failed."""
    try:
        return pool.submit(run_cell, cell, store, places)
    except BrokenProcessPool as error:
        failed: Future[None] = Future()
        failed.set_exception(error)
        return failed


def _line(error: Exception) -> str:
    """What went wrong, in one line; what is no error of ours says its kind."""
    if isinstance(error, BrokenProcessPool):  # one was killed, and takes those beside it along
        return DIED
    return str(error) if isinstance(error, HoldfastError) else described(error)
