"""SIGKILL, at random file operations and at random moments."""

from __future__ import annotations

import random
import shutil
import signal
from collections.abc import Callable
from pathlib import Path

from fault_children import Child, Ended, Setup, at_operation, command, finished
from fault_outcomes import Outcome
from fault_runs import REGIMES, different, ending, kept, lost, small, training

FAULT = "SIGKILL while training"


def kill_training(folder: Path, draw: random.Random, regime: str, count: int) -> list[Outcome]:
    """Kill a training until it has died so many times, let it finish, and compare it with one that never was.

    Args:
        folder: empty.
        draw: where the next kill comes.
        regime: which.
        count: of kills.
    """
    recipe = small(**REGIMES[regime])
    operations, whole = measured(training(recipe, folder / "whole"), folder / "whole")
    words, run = training(recipe, folder / "cut"), folder / "cut" / "run"
    before, gone = {"step": 0, "lines": 0}, []
    while len(gone) < count:
        if struck(words, folder / "cut", draw, operations, whole.seconds, at_once=len(gone) % 3 != 2):
            after = kept(run)
            gone.append(lost(before, after))
            before = after
        else:  # it was done before the fault came: once more from the start
            shutil.rmtree(run)
            before = {"step": 0, "lines": 0}
    finished(words, folder / "cut")
    wrong = different(ending(folder / "whole" / "run"), ending(run))
    return [Outcome(FAULT, regime, not wrong, was or bool(wrong), ", ".join(wrong[:3])) for was in gone]


def measured(words: list[str], folder: Path, also: Setup | None = None) -> tuple[int, Ended]:
    """Run a command undisturbed; how many file operations it takes, and how it ended."""
    tally = folder / "tally"
    ended = finished(words, folder, at_operation(folder, 0, tally, also))
    return int(tally.read_text()), ended


def struck(
    words: list[str],
    folder: Path,
    draw: random.Random,
    operations: int,
    seconds: float,
    at_once: bool = True,
    also: Setup | None = None,
) -> bool:
    """Kill a command at a random file operation, or at a random moment; whether it died.

    Early ones more often than late ones, so that a command can be killed many times before it is done.
    """
    if at_once:
        number = draw.randint(1, max(2, operations // 2))
        return command(words, folder, at_operation(folder, number, also=also)).killed
    return Child(words, folder, also).signalled(signal.SIGKILL, draw.uniform(0, seconds * 0.7)).killed


def kill_command(
    fault: str,
    where: str,
    words: Callable[[Path], list[str]],
    end: Callable[[Path], dict[str, str]],
    folder: Path,
    draw: random.Random,
    count: int,
    prepare: Callable[[Path], object] = lambda folder: folder.mkdir(parents=True),
    usable: Callable[[Path], bool] = lambda folder: True,
    also: Setup | None = None,
) -> list[Outcome]:
    """Kill any command that is safe to repeat, some times in a row each time, and compare what it leaves in the end.

    Args:
        fault: its kind.
        where: what is struck.
        words: of the command that works in a folder.
        end: what must be the same.
        folder: empty.
        draw: where the next kill comes.
        count: of kills.
        prepare: makes the folder as it is before the command.
        usable: whether what is there after a kill can be used as it is.
        also: prepares the child.
    """
    whole, cut = folder / "whole", folder / "cut"
    prepare(whole)
    operations, ended = measured(words(whole), whole, also)
    prepare(cut)
    fine = []
    while len(fine) < count:
        if struck(words(cut), cut, draw, operations, ended.seconds, at_once=len(fine) % 3 != 2, also=also):
            fine.append(usable(cut))
        else:
            shutil.rmtree(cut)
            prepare(cut)
    finished(words(cut), cut, also)
    wrong = different(end(whole), end(cut))
    return [Outcome(fault, where, not wrong, not was or bool(wrong), ", ".join(wrong[:3])) for was in fine]
