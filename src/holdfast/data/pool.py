"""Processes that work for this one, and memory in which the arrays lie that they return."""

from __future__ import annotations

import mmap
import multiprocessing
import os
import selectors
import signal
import threading
import time
import weakref
from collections.abc import Callable, Sequence
from concurrent.futures import BrokenExecutor, Future
from contextlib import suppress
from itertools import count
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray

SLOT = 2**22
"""Bytes of shared memory for what one task returns; what finds no room travels as a message, which costs more."""
SLOTS = 8
"""Of each process; memory that is never written to is never taken."""
WATCH = 1.0
"""Seconds between two looks whether the process for which these work is still there."""

Bytes: TypeAlias = NDArray[np.uint8]

Waiting: TypeAlias = dict[int, tuple[Future[Any], Bytes]]
"""By the number of a task, who waits for it, and its slot."""


class Placed(NamedTuple):
    """Where in a slot an array lies."""

    begin: int
    end: int
    shape: tuple[int, ...]


class Slots:
    """Memory that a process shares with its copies, in slots that are free again when nobody here holds them.

    Args:
        number: how many.
    """

    def __init__(self, number: int) -> None:
        self.memory = mmap.mmap(-1, number * SLOT)
        self.free = list(range(number))

    def take(self) -> tuple[int | None, Bytes]:
        """Number and memory of the one that was last in use; nothing where none is free."""
        try:
            number = self.free.pop()
        except IndexError:
            return None, np.empty(0, np.uint8)
        slot = np.frombuffer(self.memory, np.uint8, SLOT, number * SLOT)
        weakref.finalize(slot, self.free.append, number)
        return number, slot


class Shared(NamedTuple):
    """What a process has of the one that started it.

    Args:
        tasks: where to take them from, by turns.
        answers: where to put them, by turns.
        memory: of the slots.
        first: arguments of every task.
        parent: number of the process that started it.
    """

    tasks: tuple[Connection, Any]
    answers: tuple[Connection, Any]
    memory: mmap.mmap
    first: tuple[Any, ...]
    parent: int


class ProcessPool:
    """Copies of this process that do tasks, one at a time each.

    They are copies as a `torch` DataLoader has them: nothing is imported again, and no script of a user without a guard
    around its main part runs twice. `concurrent.futures` has such a pool, too, which asks after each process at each
    task and brings arrays through a pipe: a batch of 64 in sixteen tasks takes 17 ms of this process, here 6.

    Args:
        workers: how many.
        first: arguments of every task; they do not travel.
    """

    def __init__(self, workers: int, *first: Any) -> None:
        context, self.slots = multiprocessing.get_context("fork"), Slots(SLOTS * workers)
        (inbox, self._tasks), (answers, outbox) = context.Pipe(duplex=False), context.Pipe(duplex=False)
        turns = context.Lock(), context.Lock()
        shared = Shared((inbox, turns[0]), (outbox, turns[1]), self.slots.memory, first, os.getpid())
        self.processes: list[BaseProcess] = []
        self.stop = weakref.finalize(self, _kill, self.processes, os.getpid())
        """End all processes, whatever they are at."""
        for _ in range(workers):
            process = context.Process(target=_serve, args=(shared,), daemon=True)
            process.start()
            self.processes.append(process)
        inbox.close()  # so that nobody waits for room in a pipe from which nobody reads
        outbox.close()
        self._numbers, self._lock, self._ended = count(), threading.Lock(), threading.Event()
        self._waiting: Waiting = {}
        listening = answers, self.processes, self._waiting, self._lock, self._ended  # not this: it may be dropped
        threading.Thread(target=_listen, args=listening, name="answers", daemon=True).start()

    def submit(self, work: Callable[..., Any], what: Any) -> Future[Any]:
        """Start on what returns a tuple, first a list of byte arrays; these hold a slot as long as they live."""
        future: Future[Any] = Future()
        with self._lock:
            if self._ended.is_set():
                raise BrokenExecutor("a process has ended")
            number, (place, slot) = next(self._numbers), self.slots.take()
            self._waiting[number] = future, slot
            with suppress(BrokenPipeError):  # all have ended, of which the future will tell
                self._tasks.send((number, place, work, what))
        return future


def _listen(
    answers: Connection,
    processes: Sequence[BaseProcess],
    waiting: Waiting,
    lock: threading.Lock,
    ended: threading.Event,
) -> None:
    """Hand out answers until a process ends; nothing waits for one that will not come."""
    try:
        with selectors.DefaultSelector() as selector:
            for watched in (answers.fileno(), *(process.sentinel for process in processes)):
                selector.register(watched, selectors.EVENT_READ)
            while answers.fileno() in {key.fd for key, _ in selector.select()}:
                _deliver(waiting, *answers.recv())
    except EOFError:
        pass
    finally:
        _kill(processes, os.getpid())
        with lock:
            ended.set()
        for future, _ in waiting.values():
            future.set_exception(BrokenExecutor("a process has ended"))
        waiting.clear()
        for process in processes:
            process.join()


def _deliver(
    waiting: Waiting, number: int, arrays: list[Placed | Bytes], rest: tuple[Any, ...], error: Exception | None
) -> None:
    future, slot = waiting.pop(number)
    if error is not None:
        future.set_exception(error)
        return
    found = [slot[each.begin : each.end].reshape(each.shape) if isinstance(each, Placed) else each for each in arrays]
    future.set_result((found, *rest))


def _kill(processes: Sequence[BaseProcess], owner: int) -> None:
    """They change nothing, so it does no harm; a copy of their owner must not."""
    for process in processes if os.getpid() == owner else ():
        process.kill()


def _serve(shared: Shared) -> None:
    """In a new process: the parent decides when to stop, and nobody works for one that is gone."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    torch.set_num_threads(1)
    threading.Thread(target=_watch, args=(shared.parent,), daemon=True).start()
    (tasks, turn), (answers, turn_to_answer) = shared.tasks, shared.answers
    while True:
        with turn:
            number, place, work, what = tasks.recv()
        slot = memoryview(shared.memory)[(place or 0) * SLOT :][: 0 if place is None else SLOT]
        found: list[Bytes] = []
        rest: tuple[Any, ...] = ()
        error = None
        try:
            found, *rest = work(*shared.first, what)
        except Exception as raised:
            error = raised
        answer = number, _placed(found, slot), rest, error
        with turn_to_answer:
            answers.send(answer)


def _placed(arrays: Sequence[Bytes], slot: memoryview) -> list[Placed | Bytes]:
    """Arrays put into a slot as far as there is room, and where."""
    placed: list[Placed | Bytes] = []
    begin = 0
    for array in arrays:
        end = begin + array.nbytes
        if end > len(slot):
            placed.append(array)
            continue
        slot[begin:end] = np.ascontiguousarray(array).reshape(-1).data
        placed.append(Placed(begin, end, array.shape))
        begin = end
    return placed


def _watch(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(WATCH)
    os._exit(1)
