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
from holdfast_studies.jobs import Cell, Measure, Training, measure_key
from holdfast_studies.running import Places, run_cell
from holdfast_studies.store import Store

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
    cells: Sequence[Cell], store: Store, places: Places, jobs: int = 1, deadline: float | None = None
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
    work = _Work(store, places, jobs, deadline, {})
    # Before all others, so that no two processes train the start they share.
    starts = [start for cell in cells if not store.done(cell) and (start := _start(cell)) is not None]
    waiting = [cell for cell in distinct(starts) if not store.done(cell) or not work.over(cell)]
    if waiting:
        work.run(waiting)
    work.run([cell for cell in distinct(cells) if not store.done(cell)])
    return work.failed


def _start(cell: Cell) -> Cell | None:
    """The training whose model a cell starts from."""
    return cell.job.first(cell.seed) if isinstance(cell.job, Training) else None


@dataclasses.dataclass(frozen=True)
class _Work:
    """What `run_cells` is given, and why cells could not be run."""

    store: Store
    places: Places
    jobs: int
    deadline: float | None
    failed: dict[str, str]

    def over(self, start: Cell) -> bool:
        """Whether a start's model is there, or never will be; a record alone may be of another machine."""
        trained = isinstance(start.job, Training) and self.store.trained(start.job, start.seed)
        return trained or self.store.stopped(start) is not None

    def run(self, cells: Sequence[Cell]) -> None:
        """Run those cells that can be."""
        left = []
        for cell in cells:
            start = _start(cell)
            lost = None if start is None else self.store.stopped(start) or self.failed.get(start.key)
            if lacks := self.places.lacks(cell):
                self.failed[cell.key] = f"needs {lacks}"
            elif lost is not None:
                self.failed[cell.key] = f"the model it starts from was not trained: {lost}"
            elif start is None or self.over(start):  # else there was no time for the start
                left.append(cell)
        with console.bar(len(left), unit="cell", what="cells") as bar:
            in_time = itertools.takewhile(lambda _: self.deadline is None or time.monotonic() <= self.deadline, left)
            for cell, error in self.in_turn(in_time) if self.jobs == 1 else self.side_by_side(in_time):
                if error is not None:
                    self.failed[cell.key] = _line(error)
                bar.update()

    def in_turn(self, cells: Iterator[Cell]) -> Iterator[tuple[Cell, Exception | None]]:
        """Each cell with why it could not be run, None where it was."""
        for cell in cells:
            try:
                run_cell(cell, self.store, self.places)
            except Interrupted:
                raise
            except Exception as error:  # one bad cell must not end a night's work
                yield cell, error
            else:
                yield cell, None

    def side_by_side(self, cells: Iterator[Cell]) -> Iterator[tuple[Cell, Exception | None]]:
        """The same, in processes; where one is killed, a new pool does the rest."""
        os.environ.setdefault("OMP_NUM_THREADS", str(max(1, (os.cpu_count() or 1) // self.jobs)))
        while (following := next(cells, None)) is not None:
            with ProcessPoolExecutor(self.jobs, mp_context=get_context("spawn")) as pool:
                yield from self.in_pool(pool, itertools.chain([following], cells))

    def in_pool(self, pool: ProcessPoolExecutor, cells: Iterator[Cell]) -> Iterator[tuple[Cell, Exception | None]]:
        """Let a pool work through cells, the next taken when a process is free, until all are done or it breaks."""
        running: dict[Future[None], Cell] = {}
        broken = False
        while True:
            for cell in itertools.islice(cells, 0 if broken else self.jobs - len(running)):
                running[self.submit(pool, cell)] = cell
            if not running:
                return
            for future in wait(running, return_when=FIRST_COMPLETED).done:
                error = future.exception()
                if isinstance(error, Interrupted) or not (error is None or isinstance(error, Exception)):
                    raise error
                broken = broken or isinstance(error, BrokenProcessPool)
                yield running.pop(future), error

    def submit(self, pool: ProcessPoolExecutor, cell: Cell) -> Future[None]:
        """The cell's future; a pool that broke a moment ago gives one that has failed."""
        try:
            return pool.submit(run_cell, cell, self.store, self.places)
        except BrokenProcessPool as error:
            failed: Future[None] = Future()
            failed.set_exception(error)
            return failed


def _line(error: Exception) -> str:
    """What went wrong, in one line; what is no error of ours says its kind."""
    if isinstance(error, BrokenProcessPool):  # one was killed, and takes those beside it along
        return DIED
    return str(error) if isinstance(error, HoldfastError) else described(error)
