"""Images that vanish or turn unreadable while a training reads them, and decoders that die."""

from __future__ import annotations

import os
import random
from functools import partial
from pathlib import Path

from fault_children import command, finished
from fault_outcomes import Outcome
from fault_runs import different, ending, small, training

from small_photos import draw_photos

WAYS = ("vanished", "emptied", "cut short", "overwritten", "replaced by a folder")


def bad_images(folder: Path, draw: random.Random, ways: tuple[str, ...] = WAYS) -> list[Outcome]:
    """Spoil an image at a random step of a training that reads files at each use, mend it, and go on."""
    photos = draw_photos(folder)
    words, whole = _reading(folder, photos)
    outcomes = []
    for way in ways:
        image = draw.choice(sorted(photos.rglob("*.png")))
        content = image.read_bytes()
        first = command(words, folder, partial(spoil_at, str(image), way, draw.randint(0, 3)))
        if image.is_dir():
            image.rmdir()
        image.write_bytes(content)
        told = first.code == 0 or (first.one_line and str(image) in first.said)
        finished(words, folder)
        wrong = different(whole, ending(folder / "run"))
        outcomes.append(Outcome(f"image {way}", "train", told and not wrong, bool(wrong), first.said[-300:]))
        _again(folder)
    return outcomes


def dying_decoders(folder: Path, draw: random.Random) -> list[Outcome]:
    """A decoder thread dies of what is no fault of the image: the run ends, does not hang, and goes on later."""
    words, whole = _reading(folder, draw_photos(folder))
    outcomes = []
    for kind in ("MemoryError", "SystemExit", "RuntimeError"):
        first = command(words, folder, partial(die_at, kind, draw.randint(2, 30)))
        finished(words, folder)
        wrong = different(whole, ending(folder / "run"))
        outcomes.append(Outcome("worker death", "decoder thread", first.code != 0 and not wrong, bool(wrong), kind))
        _again(folder)
    return outcomes


def _reading(folder: Path, photos: Path) -> tuple[list[str], dict[str, str]]:
    """The words of a training on pictures that are read at each use, and how it ends undisturbed."""
    recipe = small(data={"name": "folder", "root": str(photos), "validation": 0.25}, cache="none")
    words = training(recipe, folder)
    finished(words, folder)
    whole = ending(folder / "run")
    _again(folder)
    return words, whole


def _again(folder: Path) -> None:
    (folder / "run").rename(folder / f"done-{len(list(folder.glob('done-*')))}")


def spoil_at(image: str, way: str, step: int) -> None:
    """In a child: spoil an image when a step begins."""
    from holdfast.training import loop

    real, calls = loop.one_step, iter(range(10**6))

    def spoiling(*arguments: object) -> object:
        if next(calls) == step:
            _spoil(Path(image), way)
        return real(*arguments)  # type: ignore[arg-type]

    loop.one_step = spoiling  # type: ignore[assignment]


def _spoil(image: Path, way: str) -> None:
    content = image.read_bytes()
    image.unlink()
    if way == "emptied":
        image.write_bytes(b"")
    elif way == "cut short":
        image.write_bytes(content[: len(content) // 2])
    elif way == "overwritten":
        image.write_bytes(os.urandom(len(content)))
    elif way == "replaced by a folder":
        image.mkdir()


def die_at(kind: str, number: int) -> None:
    """In a child: the nth image that is decoded kills its thread."""
    from holdfast.data import sources

    real, calls = sources.FileSource.image, iter(range(10**6))
    error = {"MemoryError": MemoryError, "SystemExit": SystemExit, "RuntimeError": RuntimeError}[kind]

    def dying(self: sources.FileSource, index: int, size: int | None = None) -> sources.Pixels:
        if next(calls) == number:
            raise error("injected")
        return real(self, index, size)

    sources.FileSource.image = dying  # type: ignore[method-assign]
