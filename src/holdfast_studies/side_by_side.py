"""Cells side by side in processes, the longest first, as many as a machine has use for."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import time
from collections.abc import Callable, Iterator
from multiprocessing.connection import wait
from typing import Any

import torch

from holdfast import console
from holdfast.errors import plural
from holdfast.run_files import batch_size, finite, steps
from holdfast.training import Interrupted
from holdfast.training.loop import stop_signals
from holdfast_studies.ceilings import Machine, cores, forget_ceilings, look_at_machine, network, remember_jobs
from holdfast_studies.expected import begun, ceiling_of, expected_seconds, training_log, work_done
from holdfast_studies.job_count import JobCount, gpu_memory, job_counts
from holdfast_studies.jobs import Cell, Training
from holdfast_studies.mps import shared_gpu, variables
from holdfast_studies.pending import Pending, Tally
from holdfast_studies.running import Company, Places
from holdfast_studies.workers import Worker, WorkerReply, let_go

LOOK = 2.0
"""Seconds between two looks at the jobs."""

SEEN = 2
"""Lines that each job must add to its log before their number is judged; the first may be of the time before."""


def threads_of(device: torch.device) -> int:
    """Threads that a cell computes with, the same however many run beside it: figures must not depend on that."""
    given = os.environ.get("OMP_NUM_THREADS", "")
    if given.isdecimal() and int(given):
        return int(given)
    return 1 if device.type == "cpu" else max(1, cores() // 8)


@dataclasses.dataclass
class _Task:
    """A cell that runs.

    Args:
        before: images that had gone forward and back for it.
        seen: the step of the last line in its log when the number of jobs changed.
    """

    cell: Cell
    worker: Worker
    device: int
    before: float
    seen: float = 0.0


class CellRunner:
    """Runs what is pending, until it is done, time is up or somebody asks to stop.

    Args:
        pending: the cells, and why some fail.
        work: what is done for a cell, its store, its places and its company.
        places: of datasets and weights.
        devices: that share the cells.
        jobs: side by side in all; None to find out.
        deadline: when to stop at a checkpoint, by `time.monotonic()`.
        tally: told what was done.
    """

    def __init__(
        self,
        pending: Pending,
        work: Callable[..., Any],
        places: Places,
        devices: list[torch.device],
        jobs: int | None,
        deadline: float | None,
        tally: Tally,
    ) -> None:
        self.pending, self.work, self.places, self.devices = pending, work, places, devices
        self.store, self.deadline, self.tally = pending.store, deadline, tally
        self.jobs = jobs
        self.tasks: list[_Task] = []
        self.idle: list[Worker] = []
        self.again: set[str] = set()
        self.machine = Machine("", {})
        self.counts: list[JobCount] = []

    def run(self) -> None:
        """Work through the queue."""
        on_gpu = any(device.type == "cuda" for device in self.devices)
        threads = min(map(threads_of, self.devices))
        with contextlib.ExitStack() as stack:
            stop = stack.enter_context(stop_signals())
            stack.enter_context(variables({"OMP_NUM_THREADS": str(threads)}))
            if on_gpu and self.jobs != 1:
                stack.enter_context(shared_gpu())
            stack.callback(lambda: let_go([*self.idle, *(task.worker for task in self.tasks)]))
            self._look_at_machine(stop)
            self.counts = job_counts(self.jobs, self.devices, threads, self.machine)
            self.pending.sort(self._order)
            self.tally.start(len(self.devices))
            with console.bar(len(self.pending.cells), unit="cell", what="cells") as bar:
                while not stop and not self._late() and (self._begin() or self.tasks):
                    for task in self._ended():
                        bar.update(self._take(task, task.worker.answer()))
                    self._judge()
            self._end(bool(stop))

    def _order(self, cell: Cell) -> tuple[bool, float]:
        """What is begun first, so that it is finished; then the longest, so that no core or card idles in the end."""
        return not begun(cell, self.store), -expected_seconds(cell, self.store, self.machine.ceilings)

    def _late(self) -> bool:
        return self.deadline is not None and time.monotonic() > self.deadline

    def _look_at_machine(self, stop: list[int]) -> None:
        """Measure the ceilings in a process of their own: the one that waits here must not use the card."""
        placed = [cell for cell in self.pending.cells if not self.places.lacks(cell)]
        networks = list(dict.fromkeys(one for cell in placed if (one := network(cell))))
        if not networks:
            return
        console.say("looking at what the machine can do at most")
        worker = Worker()
        self.idle.append(worker)
        worker.begin(look_at_machine, networks, self._placed(0).device, self.store.machine)
        while not stop and not self._late() and not wait([worker.pipe], LOOK):
            pass
        if wait([worker.pipe], 0) and (answer := worker.answer()).kind == "done":
            self.machine = answer.value
            self._retire(worker, 0)
        else:
            self.idle.remove(worker)
            let_go([worker])

    def _begin(self) -> bool:
        """Give every free job a cell; whether any was begun."""
        began = False
        for number, count in enumerate(self.counts):
            while sum(task.device == number for task in self.tasks) < count.count:
                cell = self.pending.take()
                if cell is None:
                    return began
                worker = self.idle.pop() if self.idle else Worker()
                self.tasks.append(_Task(cell, worker, number, work_done(cell, self.store)))
                worker.begin(self.work, cell, self.store, self._placed(number), self._company(cell, count.count))
                self._mark(number)
                began = True
        return began

    def _placed(self, device: int) -> Places:
        return dataclasses.replace(self.places, device=str(self.devices[device]))

    def _company(self, cell: Cell, jobs: int) -> Company:
        """What a cell shares its device with; one that ran out of its part of the memory takes what is free."""
        alike = sum(network(other) == network(cell) for other in self.pending.cells) + 1
        return Company(alike=alike, jobs=1 if cell.key in self.again else jobs)

    def _ended(self) -> Iterator[_Task]:
        """Tasks whose process has answered or died, each taken off the list; after a moment, none."""
        left = LOOK if self.deadline is None else max(0.0, min(LOOK, self.deadline - time.monotonic()))
        ready = wait([task.worker.pipe for task in self.tasks], left)
        for task in [task for task in self.tasks if task.worker.pipe in ready]:
            self.tasks.remove(task)
            yield task

    def _take(self, task: _Task, answer: WorkerReply) -> int:
        """File what came of a task; how many cells are over. What others may have caused is tried once more."""
        cell, name = task.cell, f"{task.cell.arm}, seed {task.cell.seed}"
        self.tally.add(self._ideal(task), cells=answer.kind == "done")
        if answer.kind == "died":
            let_go([task.worker])
        else:
            self._retire(task.worker, task.device)
        if answer.kind in ("died", "crowded"):
            count = self.counts[task.device]
            count.crowded(1 + sum(other.device == task.device for other in self.tasks))
            self._remember(count)
            if cell.key not in self.again:
                self.again.add(cell.key)
                self.pending.put_back(cell)
                console.say(f"{name}: {answer.value}; it is begun again once")
                return 0
        if answer.kind != "done":
            self.pending.fail(cell, answer.value)
        console.say(f"{name}: {'done' if answer.kind == 'done' else answer.value}")
        return 1

    def _ideal(self, task: _Task) -> float:
        """Seconds that its work would have taken at the ceiling of its network."""
        done = max(0.0, work_done(task.cell, self.store) - task.before)
        return done / ceiling_of(task.cell, self.machine.ceilings) if self.machine.ceilings else 0.0

    def _retire(self, worker: Worker, device: int) -> None:
        """Keep a process for the next cell; on a GPU a new one begins with all of its memory free."""
        if worker in self.idle:
            self.idle.remove(worker)
        if self.devices[device].type == "cpu":
            self.idle.append(worker)
        else:
            let_go([worker])

    def _mark(self, device: int) -> None:
        """From now on another number of jobs runs on a device: rates count from here."""
        for task in self.tasks:
            if task.device == device:
                task.seen = max((step for step, _ in self._rated(task)), default=0.0)

    def _judge(self) -> None:
        """Ask for more or fewer jobs where all that may run have been seen at work."""
        for number, count in enumerate(self.counts):
            own = [task for task in self.tasks if task.device == number]
            if not count.growing or len(own) < count.count:
                continue
            rates = [self._rate(task) for task in own]
            known = [rate for rate in rates if rate is not None]
            if len(known) == len(rates):
                before, memory = count.count, gpu_memory(self.devices[number])
                count.look(sum(known), memory)
                if memory is None:
                    console.say("nvidia-smi does not tell how much memory is in use; give --jobs N to try more")
                elif count.count != before:
                    console.say(f"{plural(count.count, 'job')} side by side on {self.devices[number]}")
                self._remember(count)

    def _remember(self, count: JobCount) -> None:
        """Begin with as many jobs next time."""
        if self.jobs is None and self.machine.ceilings:
            remember_jobs(self.machine, count.count, not count.growing, self.store.machine)

    def _rated(self, task: _Task) -> list[tuple[float, float]]:
        """Step and share of the ceiling of the lines of a task's log."""
        if not isinstance(task.cell.job, Training):
            return []
        batch = batch_size(task.cell.job.resolved(task.cell.seed).plain()) or 1
        ceiling = ceiling_of(task.cell, self.machine.ceilings)
        speeds = [
            (step, finite(line.get("passed")), finite(line.get("images_per_second")))
            for step, line in steps(training_log(task.cell, self.store))
        ]
        return [(step, each * speed / batch / ceiling) for step, each, speed in speeds if each and speed]

    def _rate(self, task: _Task) -> float | None:
        """What a task does at the moment; None where it has not done enough since the number of jobs changed."""
        new = [rate for step, rate in self._rated(task) if step > task.seen]
        return new[-1] if len(new) >= SEEN else None

    def _end(self, asked: bool) -> None:
        """Stop what runs at a checkpoint, count it, and say what is left."""
        stopped = list(self.tasks)
        let_go([*self.idle, *(task.worker for task in stopped)])
        self.idle, self.tasks = [], []
        for task in stopped:
            self.tally.add(self._ideal(task), cells=0)
        left = len(self.pending.cells)
        self.tally.stop(left + len(stopped))
        if (self.tally.share or 0) > 1:
            forget_ceilings(self.machine, self.store.machine)
        if asked:
            raise Interrupted(f"stopped, {plural(len(stopped), 'cell')} in the middle; run the same command to go on")
        if stopped or left:
            console.say(
                f"time is up: {plural(len(stopped), 'cell')} stopped in the middle, {left:,} not begun; run the same "
                "command to go on"
            )
