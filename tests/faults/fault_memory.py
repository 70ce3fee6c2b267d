"""Memory that runs out, the computer's or a GPU's, in the middle of a command."""

from __future__ import annotations

import random
from functools import partial
from pathlib import Path
from typing import Any

from fault_children import command, finished
from fault_commands import audit_end, audit_words
from fault_outcomes import Outcome
from fault_runs import different, ending, small, training

KINDS = ("MemoryError", "OutOfMemoryError")


def out_of_memory(folder: Path, draw: random.Random, model: Path) -> list[Outcome]:
    """One line that says so, what was saved is kept, and the same command goes on when there is room."""
    words, place = training(small(), folder / "train"), folder / "train"
    finished(words, place)
    whole = ending(place / "run")
    audit = audit_words(model, folder / "audit")
    (folder / "audit").mkdir()
    finished(audit, folder / "audit")
    measured = audit_end(folder / "audit")
    outcomes = []
    for kind in KINDS:
        (place / "run").rename(place / f"before-{kind}")
        first = command(words, place, partial(run_out, "training.captured", "one_step", kind, draw.randint(1, 8)))
        finished(words, place)
        outcomes.append(_outcome("train", first.one_line, different(whole, ending(place / "run")), first.said))
        (folder / "audit" / "out").rename(folder / "audit" / f"before-{kind}")
        strike = partial(run_out, "audit.state", "attack_block", kind, draw.randint(1, 9))
        first = command(audit, folder / "audit", strike)
        finished(audit, folder / "audit")
        wrong = different(measured, audit_end(folder / "audit"))
        outcomes.append(_outcome("audit", first.one_line, wrong, first.said))
    return outcomes


def _outcome(where: str, told: bool, wrong: list[str], said: str) -> Outcome:
    survived = told and "memory ran out" in said and not wrong
    return Outcome("memory runs out", where, survived, bool(wrong), said[-300:])


def run_out(module: str, name: str, kind: str, number: int) -> None:
    """In a child: the nth call of a function finds no room."""
    import importlib

    import torch

    error = {"MemoryError": MemoryError(), "OutOfMemoryError": torch.OutOfMemoryError("CUDA out of memory.")}[kind]
    place = importlib.import_module(f"holdfast.{module}")
    real, calls = getattr(place, name), iter(range(1, 10**6))

    def failing(*arguments: Any) -> Any:
        if next(calls) == number:
            raise error
        return real(*arguments)

    setattr(place, name, failing)
