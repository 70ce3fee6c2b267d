"""Checkpoints that were cut short, changed, or lost a file."""

from __future__ import annotations

import random
import shutil
from collections.abc import Iterator
from pathlib import Path

from fault_children import command, finished
from fault_outcomes import Outcome
from fault_runs import different, ending, small, training

from holdfast.training.checkpoint import load_checkpoint

FAULT = "damaged checkpoint"


def positions(file: Path, draw: random.Random) -> dict[str, int]:
    """A byte of every kind there is in a file of a checkpoint."""
    data = file.read_bytes()
    if file.suffix == ".json":
        keys = {f"at {key}": data.index(f'"{key}"'.encode()) + len(key) + 5 for key in ("sha256", "step", "schema")}
        return {"first": 0, **keys, "anywhere": draw.randrange(len(data)), "last": len(data) - 1}
    header = int.from_bytes(data[:8], "little")
    return {
        "length of the header": draw.randrange(8),
        "header": 8 + draw.randrange(header),
        "first number": 8 + header,
        "numbers": 8 + header + draw.randrange(len(data) - 8 - header),
        "last": len(data) - 1,
    }


def damages(checkpoint: Path, draw: random.Random) -> Iterator[str]:
    """Damage the files of a checkpoint in turn, in every way at every kind of place, and put each right again."""
    for file in sorted(checkpoint.iterdir()):
        whole = file.read_bytes()
        for where, at in positions(file, draw).items():
            flipped = bytes([whole[at] ^ (1 << draw.randrange(8))])
            for how, data in {
                "cut": whole[:at],
                "flipped": whole[:at] + flipped + whole[at + 1 :],
                "zeroed from": whole[:at] + bytes(len(whole) - at),
                "inserted": whole[:at] + b"\0" + whole[at:],
            }.items():
                if data != whole:
                    file.write_bytes(data)
                    yield f"{file.name}: {how} {where}"
        file.unlink()
        yield f"{file.name}: gone"
        file.write_bytes(whole)


def damage_checkpoints(folder: Path, draw: random.Random, resumed: int) -> list[Outcome]:
    """Damage the newest checkpoint in every way: the one before must be found; some are trained on to the end.

    Args:
        folder: empty.
        draw: places and bits.
        resumed: how many damages are followed by a whole training.
    """
    recipe = small()
    words = training(recipe, folder)
    finished(words, folder)
    run, stopped = folder / "run", folder / "stopped"
    whole = ending(run)
    (run / "evaluation.json").unlink()
    shutil.copytree(run, stopped)
    before, newest = sorted((stopped / "checkpoint").iterdir())
    outcomes = []
    every = sum(1 for _ in damages(newest, random.Random(0)))
    chosen = set(draw.sample(range(every), min(resumed, every)))
    for number, way in enumerate(damages(newest, draw)):
        found = load_checkpoint(stopped / "checkpoint")
        fine, wrong = found is not None and found.step == int(before.name), []
        if number in chosen:
            shutil.rmtree(run)
            shutil.copytree(stopped, run)
            fine = fine and "the one before it is taken" in finished(words, folder).said
            wrong = different(whole, ending(run))
        outcomes.append(Outcome(FAULT, "newest", fine and not wrong, bool(wrong), way))
    shutil.rmtree(run)
    shutil.copytree(stopped, run)
    outcomes.append(_both(words, folder, whole))
    return outcomes


def _both(words: list[str], folder: Path, whole: dict[str, str]) -> Outcome:
    """Both are damaged: refused, nothing is thrown away, and a copy put back goes on."""
    run, aside = folder / "run", folder / "copy"
    shutil.copytree(run / "checkpoint", aside)
    for checkpoint in (run / "checkpoint").iterdir():
        (checkpoint / "state.json").write_bytes(b"")
    refused = command(words, folder)
    told = refused.one_line and "put back a copy" in refused.said
    there = sorted(path.name for path in (run / "checkpoint").iterdir()) == sorted(p.name for p in aside.iterdir())
    shutil.rmtree(run / "checkpoint")
    aside.replace(run / "checkpoint")
    finished(words, folder)
    wrong = different(whole, ending(run))
    return Outcome(FAULT, "both", told and there and not wrong, not there or bool(wrong), refused.said[-200:])
