"""Commands in processes of their own that a fault can strike; forked from one that has imported everything already."""

from __future__ import annotations

import dataclasses
import os
import signal
import sys
import time
from collections.abc import Callable, Sequence
from functools import partial
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from typing import Any

from meeting import warm_context

Setup = Callable[[], object]
"""Prepares a fault inside the child, before its command begins."""

LONGEST = 120.0
"""Seconds after which a child counts as hanging."""


@dataclasses.dataclass(frozen=True)
class Ended:
    """How a child ended.

    Args:
        code: its exit code, negative for a signal.
        said: what it wrote on standard error.
        seconds: how long it ran.
    """

    code: int
    said: str
    seconds: float

    @property
    def killed(self) -> bool:
        """Whether the fault struck before the command was done."""
        return self.code == -signal.SIGKILL

    @property
    def one_line(self) -> bool:
        """Whether it was refused in the way of the house: exit code 2, one line, no traceback."""
        lines = [line for line in self.said.splitlines() if line.startswith("holdfast: ")]
        return self.code == 2 and len(lines) == 1 and "Traceback" not in self.said


class Child:
    """A holdfast command that runs beside us.

    Args:
        words: of the command line.
        folder: for what it says.
        setup: prepares the fault.
    """

    def __init__(self, words: Sequence[str], folder: Path, setup: Setup | None = None) -> None:
        context = warm_context()
        self._said = folder / "said.txt"
        self._began = context.Event()
        self._process: ForkServerProcess = context.Process(
            target=_run, args=(list(words), str(self._said), self._began, setup)
        )
        self._process.start()
        self._began.wait(LONGEST)
        self._start = time.monotonic()

    @property
    def number(self) -> int:
        """Of its process."""
        return int(self._process.pid or 0)

    @property
    def runs(self) -> bool:
        """Whether it has not ended yet."""
        return self._process.is_alive()

    def send(self, what: int) -> None:
        """Send it a signal."""
        if self.runs:
            os.kill(self.number, what)

    def signalled(self, what: int, seconds: float) -> Ended:
        """Send it a signal after a while, or not at all if it ends before."""
        self._process.join(seconds)
        self.send(what)
        return self.ended()

    def ended(self) -> Ended:
        """Wait for its end."""
        self._process.join(LONGEST)
        if self.runs:
            self._process.kill()
            raise AssertionError(f"the command hangs:\n{self._said.read_text()}")
        code = self._process.exitcode
        return Ended(-999 if code is None else code, self._said.read_text(), time.monotonic() - self._start)


def command(words: Sequence[str], folder: Path, setup: Setup | None = None) -> Ended:
    """Run a command to its end, whichever that is."""
    return Child(words, folder, setup).ended()


def finished(words: Sequence[str], folder: Path, setup: Setup | None = None) -> Ended:
    """Run a command that must end well."""
    ended = command(words, folder, setup)
    assert ended.code == 0, f"{' '.join(words)} ended with {ended.code}:\n{ended.said}"
    return ended


def _run(words: list[str], said: str, began: Any, setup: Setup | None) -> None:
    output = os.open(said, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    os.dup2(output, 2)
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    from holdfast.cli import main

    if setup is not None:
        setup()
    began.set()
    sys.exit(main(words))


def at_operation(folder: Path, number: int, tally: Path | None = None, also: Setup | None = None) -> Setup:
    """Kill the child at its nth file operation under a folder; with a tally, count them all there instead."""
    return partial(_watch_operations, str(folder.resolve()), number, tally, also)


OPERATIONS = ("os.rename", "os.mkdir", "os.remove", "os.rmdir", "os.truncate")


def writes(event: str, arguments: tuple[Any, ...]) -> bool:
    """Whether an event of Python's audit hooks is about changing a file by its name."""
    changes = event in OPERATIONS or (event == "open" and bool(arguments[2] & (os.O_WRONLY | os.O_RDWR)))
    return changes and isinstance(arguments[0], (str, Path))


def _watch_operations(folder: str, number: int, tally: Path | None, also: Setup | None) -> None:
    if also is not None:
        also()
    count = 0
    counted = None if tally is None else os.open(tally, os.O_WRONLY | os.O_CREAT)
    real_fsync = os.fsync

    def strike() -> None:
        nonlocal count
        count += 1
        if counted is not None:
            os.pwrite(counted, f"{count:09d}".encode(), 0)
        elif count == number:
            os.kill(os.getpid(), signal.SIGKILL)

    def hook(event: str, arguments: tuple[Any, ...]) -> None:
        if writes(event, arguments) and str(arguments[0]).startswith(folder):
            strike()

    def fsync(descriptor: int) -> None:
        strike()
        real_fsync(descriptor)

    sys.addaudithook(hook)
    os.fsync = fsync
