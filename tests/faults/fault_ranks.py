"""One of several processes dies or falls silent: the other stops within a minute, and both go on later."""

from __future__ import annotations

import random
import signal
import time
from pathlib import Path

from fault_outcomes import Outcome
from fault_runs import different, ending, kept, lost, small, training

from meeting import ended, free_port, start, together

WORLD = 2
MINUTE = 60.0
DEATHS = {
    "SIGKILL of process 0": (0, signal.SIGKILL),
    "SIGKILL of process 1": (1, signal.SIGKILL),
    "SIGSTOP of process 1": (1, signal.SIGSTOP),
}


def dying_ranks(folder: Path, draw: random.Random, deaths: tuple[str, ...] = tuple(DEATHS)) -> list[Outcome]:
    """Strike one of two processes of a training when a checkpoint drawn at random is there."""
    recipe = small(epochs=12)
    words = training(recipe, folder / "whole")
    assert [code for code, _, _ in together(WORLD, *words)] == [0] * WORLD
    whole = ending(folder / "whole" / "run")
    outcomes = []
    for death in deaths:
        place = folder / death.replace(" ", "-")
        words, run, port = training(recipe, place), place / "run", free_port()
        both = [start(rank, WORLD, port, *words) for rank in range(WORLD)]
        step = draw.randint(1, 40)
        while kept(run)["step"] < step:
            assert all(process.poll() is None for process in both), [ended(process) for process in both]
            time.sleep(0.02)
        struck, how = DEATHS[death]
        both[struck].send_signal(how)
        since = time.monotonic()
        code, _, said = ended(both[1 - struck])
        seconds = time.monotonic() - since
        both[struck].kill()
        both[struck].communicate()
        told = code in (1, 2) and seconds < MINUTE and "Traceback" not in said and "run the same command" in said
        before = kept(run)
        again = together(WORLD, *words)
        wrong = different(whole, ending(run)) if all(code == 0 for code, _, _ in again) else ["the run"]
        note = f"{seconds:.0f} s; {said[-200:]}; {wrong[:3]}; {[messages[-300:] for _, _, messages in again]}"
        outcomes.append(
            Outcome(
                "one of two processes dies", death, told and not wrong, lost(before, kept(run)) or bool(wrong), note
            )
        )
    return outcomes
