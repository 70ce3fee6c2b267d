"""One of several processes dies, falls silent or is asked to stop: the other leaves too, and both go on later."""

from __future__ import annotations

import random
import signal
import time
from functools import partial
from pathlib import Path

from fault_children import Child, Ended
from fault_outcomes import Outcome
from fault_runs import different, ending, kept, lost, small, training

from meeting import free_port, meet

WORLD = 2
MINUTE = 60.0
DEATHS = {
    "SIGKILL of process 0": (0, signal.SIGKILL),
    "SIGKILL of process 1": (1, signal.SIGKILL),
    "SIGSTOP of process 0": (0, signal.SIGSTOP),
    "SIGSTOP of process 1": (1, signal.SIGSTOP),
}
STOPS = {
    "SIGINT of one of two processes": (0, signal.SIGINT),
    "SIGTERM of one of two processes": (1, signal.SIGTERM),
}
EPOCHS = 12


def launched(words: list[str], place: Path) -> list[Child]:
    """The processes of a launch, without a launcher that would stop one when another dies."""
    port, children = free_port(), []
    for rank in range(WORLD):
        (place / str(rank)).mkdir(parents=True, exist_ok=True)
        children.append(Child(words, place / str(rank), partial(meet, rank, WORLD, port)))
    return children


def undisturbed(folder: Path) -> dict[str, str]:
    """How the training ends that nothing strikes."""
    both = [child.ended() for child in launched(training(small(epochs=EPOCHS), folder), folder)]
    assert [one.code for one in both] == [0] * WORLD, both
    return ending(folder / "run")


def struck(words: list[str], place: Path, draw: random.Random, rank: int, how: signal.Signals) -> list[Child]:
    """A launch of which one process got a signal when a checkpoint drawn at random was there."""
    both, step = launched(words, place), draw.randint(1, 40)
    while kept(place / "run")["step"] < step:
        assert all(child.runs for child in both), [child.ended() for child in both]
        time.sleep(0.02)
    both[rank].send(how)
    return both


def repeated(words: list[str], place: Path, whole: dict[str, str]) -> tuple[list[str], list[Ended]]:
    """Run the same command again: what is other than in an undisturbed run, and how each process ended."""
    again = [child.ended() for child in launched(words, place)]
    wrong = different(whole, ending(place / "run")) if all(one.code == 0 for one in again) else ["the run"]
    return wrong, again


def dying_ranks(folder: Path, draw: random.Random, deaths: tuple[str, ...] = tuple(DEATHS)) -> list[Outcome]:
    """Kill or halt one of two processes of a training; the other says so within a minute."""
    whole, outcomes = undisturbed(folder / "whole"), []
    for death in deaths:
        place = folder / death.replace(" ", "-")
        words = training(small(epochs=EPOCHS), place)
        rank, how = DEATHS[death]
        both = struck(words, place, draw, rank, how)
        since = time.monotonic()
        left = both[1 - rank].ended()
        seconds = time.monotonic() - since
        both[rank].send(signal.SIGKILL)
        both[rank].ended()
        told = left.code in (1, 2) and "Traceback" not in left.said and "run the same command again" in left.said
        before = kept(place / "run")
        wrong, again = repeated(words, place, whole)
        data_lost = lost(before, kept(place / "run")) or bool(wrong)
        note = f"{seconds:.0f} s, {left.code}; {left.said[-300:]}; {wrong[:3]}; {again}"
        survived = told and seconds < MINUTE and not wrong
        outcomes.append(Outcome("one of two processes dies", death, survived, data_lost, note))
    return outcomes


def stopped_ranks(folder: Path, draw: random.Random, stops: tuple[str, ...] = tuple(STOPS)) -> list[Outcome]:
    """Ask one of two processes of a training to stop: both finish the same step, and it is the one on disk."""
    whole, outcomes = undisturbed(folder / "whole"), []
    for stop in stops:
        place = folder / stop.replace(" ", "-")
        words = training(small(epochs=EPOCHS), place)
        left = [child.ended() for child in struck(words, place, draw, *STOPS[stop])]
        saved = f"stopped at step {kept(place / 'run')['step']} of"
        told = all(one.code == 130 and saved in one.said and "Traceback" not in one.said for one in left)
        wrong, again = repeated(words, place, whole)
        outcomes.append(Outcome("clean stop", stop, told and not wrong, bool(wrong), f"{left}; {wrong[:3]}; {again}"))
    return outcomes
