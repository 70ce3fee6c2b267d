"""Images that vanish or turn unreadable while a training reads them, and decoders that die."""

from __future__ import annotations

import os
import random
from functools import partial
from pathlib import Path
from typing import Any

from fault_children import command, finished
from fault_outcomes import Outcome
from fault_runs import different, ending, small, training
from torch import Tensor

from small_photos import draw_photos

WAYS = ("vanished", "emptied", "cut short", "overwritten", "replaced by a folder")


def bad_images(folder: Path, draw: random.Random, ways: tuple[str, ...] = WAYS) -> list[Outcome]:
    """Spoil an image of a batch that is read next, in a training that reads files at each use; mend it, and go on."""
    photos = draw_photos(folder)
    contents = {image: image.read_bytes() for image in sorted(photos.rglob("*.png"))}
    words, whole = _reading(folder, photos)
    outcomes = []
    for way in ways:
        first = command(words, folder, partial(spoil_at, way, draw.randint(0, 2), draw.randrange(10**6)))
        spoilt = [image for image, content in contents.items() if not _holds(image, content)]
        told = len(spoilt) == 1 and first.one_line and str(spoilt[0]) in first.said
        for image in spoilt:
            if image.is_dir():
                image.rmdir()
            image.write_bytes(contents[image])
        finished(words, folder)
        wrong = different(whole, ending(folder / "run"))
        outcomes.append(Outcome(f"image {way}", "train", told and not wrong, bool(wrong), first.said[-300:]))
        _again(folder)
    return outcomes


def _holds(image: Path, content: bytes) -> bool:
    return image.is_file() and image.read_bytes() == content


def dying_decoders(folder: Path, draw: random.Random) -> list[Outcome]:
    """A decoder thread dies of what is no fault of the image: the run ends, does not hang, and goes on later."""
    words, whole = _reading(folder, draw_photos(folder))
    outcomes = []
    for kind in ("MemoryError", "SystemExit", "RuntimeError"):
        first = command(words, folder, partial(die_at, kind, draw.randint(2, 30)))
        told = first.one_line and ("memory ran out" if kind == "MemoryError" else f"died ({kind}: ") in first.said
        finished(words, folder)
        wrong = different(whole, ending(folder / "run"))
        note = f"{kind}: {first.said[-300:]}"
        outcomes.append(Outcome("worker death", "decoder thread", told and not wrong, bool(wrong), note))
        _again(folder)
    return outcomes


def _reading(folder: Path, photos: Path) -> tuple[list[str], dict[str, str]]:
    """The words of a training on pictures that are read at each use, and how it ends undisturbed."""
    recipe = small(data={"name": "folder", "root": str(photos), "validation": 0.25}, cache="none", epochs=4)
    words = training(recipe, folder)
    finished(words, folder)
    whole = ending(folder / "run")
    _again(folder)
    return words, whole


def _again(folder: Path) -> None:
    (folder / "run").rename(folder / f"done-{len(list(folder.glob('done-*')))}")


def spoil_at(way: str, number: int, which: int) -> None:
    """In a child: spoil an image of the nth batch that is fetched ahead, just before that."""
    from holdfast.data import ImageStore

    real, calls = ImageStore.prefetch, iter(range(10**6))

    def spoiling(self: ImageStore, rows: Tensor, *more: Any) -> None:
        if len(rows) and next(calls) == number:
            position = int(self.table.positions[int(rows[which % len(rows)])])
            _spoil(Path(self.table.source.where(position)), way)
        real(self, rows, *more)

    ImageStore.prefetch = spoiling  # type: ignore[method-assign]


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
    from holdfast.data import TreeSource
    from holdfast.data.sources import Pixels

    real, calls = TreeSource._decoded, iter(range(10**6))
    error = {"MemoryError": MemoryError, "SystemExit": SystemExit, "RuntimeError": RuntimeError}[kind]

    def dying(self: TreeSource, *asked: Any) -> Pixels:
        if next(calls) == number:
            raise error("injected")
        return real(self, *asked)

    TreeSource._decoded = dying  # type: ignore[method-assign]
