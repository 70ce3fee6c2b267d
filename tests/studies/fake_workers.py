"""Workers that work in this process, for tests of who does what and when."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Callable
from multiprocessing import Pipe
from pathlib import Path
from typing import Any

import pytest

from holdfast.training import Interrupted, loop
from holdfast_studies import running, side_by_side, workers
from holdfast_studies.ceilings import Machine
from holdfast_studies.jobs import Cell
from holdfast_studies.store import Store


class HereWorker(workers.Worker):
    """Calls at once what it is given, and dies where it is told to."""

    dies: Callable[..., bool] = staticmethod(lambda *arguments: False)

    def __init__(self) -> None:
        self.pipe, self._theirs = Pipe()

    def begin(self, function: Callable[..., Any], *arguments: Any) -> None:
        """Do it now."""
        if self.dies(*arguments):
            self._theirs.close()
        else:
            self._theirs.send(workers._called(function, arguments))

    def wait(self) -> None:
        """It is over."""


@pytest.fixture
def workers_here(monkeypatch: pytest.MonkeyPatch) -> type[HereWorker]:
    """In the place of processes; nobody measures the machine."""
    own = type("Own", (HereWorker,), {})
    monkeypatch.setattr(side_by_side, "Worker", own)
    monkeypatch.setattr(side_by_side, "look_at_machine", lambda *_: Machine("here", {}))
    return own


class _AfterSteps(list[int]):
    """Signals that come behind the third step, whenever that is."""

    steps = 0

    def __bool__(self) -> bool:
        self.steps += 1
        return self.steps >= 3


class _Killed(_AfterSteps):
    """No signal comes there: the process is killed."""

    def __bool__(self) -> bool:
        if super().__bool__():
            os.kill(os.getpid(), signal.SIGKILL)
        return False


def stopped_once(
    mark: Path, cell: Cell, store: Store, places: running.Places, company: running.Company, *, killed: bool = False
) -> None:
    """In a worker: the first cell to come is stopped, or its process killed, in the middle of its training."""
    with contextlib.ExitStack() as stack:
        with contextlib.suppress(FileExistsError):
            mark.touch(exist_ok=False)
            patch = stack.enter_context(pytest.MonkeyPatch.context())
            signals = _Killed() if killed else _AfterSteps()
            patch.setattr(loop, "stop_signals", lambda: contextlib.nullcontext(signals))
        running.run_cell(cell, store, places, company)


def holding(file: Path) -> None:
    """In a worker: work until somebody asks to stop, then save."""
    with loop.stop_signals() as stop:
        file.touch()
        while not stop:
            time.sleep(0.01)
        file.write_text("saved")
    raise Interrupted("stopped")
