"""Requests to stop, clocks that jump, and two processes in one folder."""

from __future__ import annotations

import dataclasses
import json
import random
import signal
import time
from functools import partial
from pathlib import Path

from fault_children import Child, command, finished
from fault_commands import adding_words, audit_end, audit_words, index_end, index_words
from fault_outcomes import Outcome
from fault_runs import different, ending, kept, small, training

from holdfast.training.logs import read_log


def stop_requests(folder: Path, draw: random.Random, count: int) -> list[Outcome]:
    """SIGINT and SIGTERM to a training under way: it says which step it saved, and has saved that very step."""
    # Far longer than the waits, so that no signal comes after the end; a stop seldom meets a checkpoint that is due.
    recipe = small(epochs=30, evaluate_every=10, checkpoint_every=20)
    words = training(recipe, folder / "whole")
    finished(words, folder / "whole")
    whole = ending(folder / "whole" / "run")
    words, run = training(recipe, folder / "cut"), folder / "cut" / "run"
    outcomes: list[Outcome] = []
    for number in range(count):
        which = (signal.SIGINT, signal.SIGTERM)[number % 2]
        step = _logged(run) + draw.randint(1, 5)  # a line of its own: it is past its preparations
        child = Child(words, folder / "cut")
        while _logged(run) < step:
            assert child.runs, child.ended()
            time.sleep(0.002)
        child.send(which)
        ended = child.ended()
        told = ended.code == 130 and f"stopped at step {kept(run)['step']} of" in ended.said
        told = told and "Traceback" not in ended.said
        outcomes.append(Outcome("clean stop", which.name, told, False, f"{ended.code}: {ended.said[-300:]}"))
    finished(words, folder / "cut")
    wrong = different(whole, ending(run))
    return [dataclasses.replace(one, survived=one.survived and not wrong, lost=bool(wrong)) for one in outcomes]


def _logged(run: Path) -> int:
    """The last step that the log of a run tells of."""
    return max((int(line["step"]) for line in read_log(run / "metrics.jsonl") if "loss" in line), default=0)


def _forget(run: Path) -> None:
    run.rename(run.with_name(f"done-{time.monotonic_ns()}"))


JUMPS = {"back an hour": -3600.0, "on a day": 86400.0, "back and on": 0.0}


def clock_jumps(folder: Path, draw: random.Random) -> list[Outcome]:
    """Clocks that jump while a training runs: the same weights, sane logs, and time left that is a time."""
    words = training(small(), folder / "whole")
    finished(words, folder / "whole")
    whole = ending(folder / "whole" / "run")
    outcomes = []
    for clock in ("time", "perf_counter"):
        for name, jump in JUMPS.items():
            place = folder / f"{clock}-{name.replace(' ', '-')}"
            ended = command(training(small(), place), place, partial(jump_clock, clock, jump, draw.randint(1, 50)))
            wrong = different(whole, ending(place / "run")) if ended.code == 0 else ["the run"]
            speeds = [line.get("images_per_second", 1.0) for line in read_log(place / "run" / "metrics.jsonl")]
            sane = all(0 <= speed < 1e7 for speed in speeds) and "-" not in ended.said.partition("left]")[0][-12:]
            outcomes.append(Outcome(f"clock jumps {name}", clock, sane and not wrong, bool(wrong), ended.said[-200:]))
    return outcomes


def jump_clock(clock: str, jump: float, after: int) -> None:
    """In a child: a clock that jumps after some readings; one that jumps by nothing goes to and fro instead."""
    real, calls = getattr(time, clock), iter(range(10**9))

    def jumping() -> float:
        number = next(calls)
        away = jump or (3600.0 if number % 2 else -3600.0)
        return float(real() + (away if number >= after else 0.0))

    setattr(time, clock, jumping)


def two_processes(folder: Path) -> list[Outcome]:
    """A second process is refused and the first is not disturbed; the lock of one that died is taken over."""
    recipe = small(epochs=30)
    words = training(recipe, folder / "whole")
    finished(words, folder / "whole")
    whole = ending(folder / "whole" / "run")
    words, run = training(recipe, folder / "cut"), folder / "cut" / "run"
    first = Child(words, folder / "cut")
    _wait_for(run / ".lock", first)
    first.send(signal.SIGSTOP)  # so that it is still there when the second comes
    second = command(words, folder)
    refused = second.one_line and f"is in use by process {first.number};" in second.said
    first.send(signal.SIGCONT)
    alone = first.ended()
    wrong = different(whole, ending(run)) if alone.code == 0 else ["the first run"]
    outcomes = [Outcome("two processes", "one run folder", refused and not wrong, bool(wrong), second.said[-200:])]

    _forget(run)
    killed = Child(words, folder / "cut")
    _wait_for(run / "checkpoint", killed)
    killed.send(signal.SIGKILL)
    killed.ended()
    stale = (run / ".lock").read_text().split()[0] == str(killed.number)
    finished(words, folder / "cut")
    wrong = different(whole, ending(run))
    return [*outcomes, Outcome("lock of a dead process", "one run folder", stale and not wrong, bool(wrong))]


def two_commands(folder: Path, model: Path) -> list[Outcome]:
    """The same for an audit and for adding to an index."""
    outcomes = []
    for where, words, end, lock in (
        ("audit", partial(audit_words, model), audit_end, "out/artifacts/.ers-fixed.lock"),
        ("index --add", adding_words, index_end, "index/.lock"),
    ):
        whole, cut = folder / where / "whole", folder / where / "cut"
        for place in (whole, cut):
            place.mkdir(parents=True)
            if where != "audit":
                finished(index_words(model, place), place)
        finished(words(whole), whole)
        first = Child(words(cut), cut)
        _wait_for(cut / lock, first)
        first.send(signal.SIGSTOP)
        second = command(words(cut), folder)
        refused = second.one_line and f"is in use by process {first.number};" in second.said
        first.send(signal.SIGCONT)
        alone = first.ended()
        wrong = different(end(whole), end(cut)) if alone.code == 0 else ["the first"]
        outcomes.append(Outcome("two processes", where, refused and not wrong, bool(wrong), second.said[-200:]))
    return outcomes


def _wait_for(file: Path, child: Child) -> None:
    while not file.exists() or (file.is_file() and not file.read_text()):
        assert child.runs, json.dumps(child.ended().said)
        time.sleep(0.01)
