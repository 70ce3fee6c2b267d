"""Processes that do one call after another, and stop at a checkpoint when they are let go."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import signal
import threading
import time
from collections.abc import Callable, Iterable
from multiprocessing import get_context
from multiprocessing.connection import Connection
from queue import SimpleQueue
from typing import Any, Literal, TypeAlias

from holdfast.errors import HoldfastError, described
from holdfast.locks import InUse
from holdfast.training import Interrupted

GRACE = 30.0
"""Seconds that a process has to finish its step and save it."""

PATIENCE = 40.0
"""Seconds to wait for a run that another process holds: one of a campaign that was killed is about to let it go."""

CROWDED = ("out of memory", "CUDA error")
"""What errors say that may be the fault of the jobs beside."""

Kind: TypeAlias = Literal["done", "failed", "crowded", "died"]
_Call: TypeAlias = tuple[Callable[..., Any], tuple[Any, ...]]


@dataclasses.dataclass(frozen=True)
class WorkerReply:
    """What came of a call.

    Args:
        kind: `crowded` may go well with fewer beside it, `died` is a process that was killed.
        value: what it returned, or in one line why it failed.
    """

    kind: Kind
    value: Any = None


class Worker:
    """One process; the end of the pipe to it, be it that this process is gone, tells it to stop."""

    def __init__(self) -> None:
        context = get_context("spawn")
        self.pipe, theirs = context.Pipe()
        self._process = context.Process(target=_work, args=(theirs,))
        self._process.start()
        theirs.close()

    def begin(self, function: Callable[..., Any], *arguments: Any) -> None:
        """Call a function there; the pipe can be read once it is done."""
        with contextlib.suppress(OSError):  # it died: `answer` says so
            self.pipe.send((function, arguments))

    def answer(self) -> WorkerReply:
        """What came of the call."""
        try:
            found: WorkerReply = self.pipe.recv()
        except (EOFError, OSError):
            return WorkerReply("died", "its process was killed (out of memory?)")
        return found

    def let_go(self) -> None:
        """Tell it to save what it does and end."""
        self.pipe.close()

    def wait(self) -> None:
        """Until it has ended; one that does not is killed."""
        self._process.join(GRACE + 5)
        if self._process.is_alive():
            self._process.kill()
            self._process.join()


def let_go(workers: Iterable[Worker]) -> None:
    """End processes, all at the same time."""
    known = list(workers)
    for worker in known:
        worker.let_go()
    for worker in known:
        worker.wait()


def _work(pipe: Connection) -> None:
    if os.name == "posix":
        os.setpgrp()  # Ctrl-C is for the process that started this one, which then lets it go
    calls: SimpleQueue[_Call | None] = SimpleQueue()
    unanswered: list[_Call] = []
    threading.Thread(target=_listen, args=(pipe, calls, unanswered), daemon=True).start()
    while (call := calls.get()) is not None:
        answer = _called(*call)
        unanswered.clear()
        with contextlib.suppress(OSError):  # nobody listens any more
            pipe.send(answer)


def _listen(pipe: Connection, calls: SimpleQueue[_Call | None], unanswered: list[_Call]) -> None:
    """Take calls until the pipe ends, then stop the one under way as SIGTERM does; after a while, in any case."""
    while True:
        try:
            call = pipe.recv()
        except (EOFError, OSError):
            break
        except Exception as error:  # what was sent cannot be read here
            pipe.send(WorkerReply("failed", described(error)))
        else:
            unanswered.append(call)
            calls.put(call)
    calls.put(None)
    if unanswered:
        os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(GRACE)
    os._exit(1)


def _called(function: Callable[..., Any], arguments: tuple[Any, ...]) -> WorkerReply:
    """Call it; a run that is held is waited for."""
    end = time.monotonic() + PATIENCE
    while True:
        try:
            return WorkerReply("done", function(*arguments))
        except InUse as error:
            if time.monotonic() > end:
                return WorkerReply("failed", str(error))
            time.sleep(1)
        except Interrupted:  # somebody asked this process alone
            return WorkerReply("died", "its process was stopped")
        except Exception as error:  # one bad cell must not end a night's work
            return WorkerReply("crowded" if any(word in str(error) for word in CROWDED) else "failed", line(error))


def line(error: Exception) -> str:
    """What went wrong, in one line; what is no error of ours says its kind."""
    return str(error) if isinstance(error, HoldfastError) else described(error)
