"""Bytes that two processes exchange in a step, and what grows with the images (docs/results/notebook-scaling.md).

    python benchmarks/scaling.py                   both
    python benchmarks/scaling.py --only growth

- exchange: the second step of a training of two processes on this machine (gloo), `conv-small`, d 128, 28 × 4 images.
- growth: one core; decoding a 375 × 500 JPEG to 256 px, the table of a folder, and P × K batches of 10 images a class.
"""

from __future__ import annotations

import argparse
import io
import os
import socket
import time
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image

from holdfast.data import ImageTable
from holdfast.data.batches import ClassBatches
from holdfast.data.sources import FileSource, decode
from holdfast.processes import joined
from holdfast.regimes import StepContext
from holdfast.training.recipe import load_recipe
from holdfast.training.session import build_session
from holdfast.training.step import load_batch, one_step
from holdfast.view import View

MODEL = {"backbone": "conv-small", "dim": 128}
CASES: dict[str, tuple[str, dict[str, Any]]] = {
    "standard, margin": ("pocket", {"loss": "margin"}),
    "the same, `batchnorm: freeze`": ("pocket", {"loss": "margin", "model": {**MODEL, "batchnorm": "freeze"}}),
    "standard, ArcFace": ("pocket", {"loss": "arcface"}),
    "HM": ("hm-lga-pocket", {}),
    "MDProp, two extra sets": ("mdprop-2-pocket", {"loss": "margin"}),
}


def exchange(rank: int, world: int, port: int) -> None:
    """In one of the processes: two steps of each case; the first process prints the second."""
    here = {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": world, "LOCAL_WORLD_SIZE": world, "MASTER_PORT": port}
    os.environ.update({name: str(value) for name, value in here.items()}, MASTER_ADDR="127.0.0.1")
    torch.set_num_threads(1)
    with joined(torch.device("cpu")) as processes:
        for name, (base, changes) in CASES.items():
            recipe = load_recipe({"base": base, "model": MODEL, **changes})
            session = build_session(recipe, "cpu", False)
            context = StepContext(session.model, session.criterion, session.accelerator, 0)
            for step, rows in zip(range(2), session.batches, strict=False):
                context.start(step)
                processes.gathered = processes.reduced = 0
                one_step(session, context, load_batch(session, context, rows), True)
            if processes.main:
                print(f"| {name} | {processes.gathered:,} | {processes.reduced:,} |", flush=True)


def growth() -> None:
    """Time and room per image."""
    drawn = np.random.default_rng(0).integers(0, 256, (47, 63, 3), np.uint8)
    file = io.BytesIO()
    Image.fromarray(drawn).resize((500, 375), Image.Resampling.BICUBIC).save(file, "JPEG", quality=90)
    best = 1000 * min(
        seconds(lambda: decode(lambda: io.BytesIO(file.getvalue()), "a picture", View(256))) for _ in range(100)
    )
    print(f"decoding a JPEG of 375 × 500 ({len(file.getvalue()) / 1000:.0f} kB): {best:.1f} ms")

    count = 100_000
    names = [(f"class-{row // 10:07}", f"class-{row // 10:07}/{row:08}.jpg") for row in range(count)]
    print(f"table of a folder: {room(lambda: table_of(names)) / count:.0f} B per image")

    labels = np.arange(count) // 10
    made = room(lambda: ClassBatches(labels, 224, 4, 0)) / count
    print(f"P × K batches: {made:.0f} B per image, {room(lambda: epoch(labels)) / count:.0f} B within an epoch")
    million = np.arange(1_000_000) // 10
    print(f"for a million images: {min(seconds(lambda: ClassBatches(million, 224, 4, 0)) for _ in range(3)):.1f} s")
    batches = iter(ClassBatches(million, 224, 4, 0))
    print(f"a batch of 224 × 4: {1000 * min(seconds(lambda: next(batches)) for _ in range(100)):.1f} ms")


def epoch(labels: NDArray[np.int64]) -> list[object]:
    """All that an epoch's batches hold just before its last one."""
    batches = ClassBatches(labels, 224, 4, 0)
    dealt = iter(batches)
    for _ in range(len(batches) - 1):
        next(dealt)
    return [batches, dealt]


def table_of(names: list[tuple[str, str]]) -> ImageTable:
    """The table of a folder that need not exist."""
    source = FileSource([Path("photos") / name for _, name in names])
    ids = [str(path.relative_to("photos")) for path in source.paths]
    return ImageTable.of(source, classes=[own for own, _ in names], splits=["train"] * len(ids), ids=ids, name="photos")


def seconds(work: Callable[[], object]) -> float:
    """How long something takes; the least of several is what it takes where nothing else runs."""
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


def room(make: Callable[[], object]) -> int:
    """Bytes that what is made takes as long as it is kept."""
    tracemalloc.start()
    made = make()
    taken = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    del made
    return taken


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", choices=["exchange", "growth"])
    only = parser.parse_args().only
    if only != "growth":
        with socket.socket() as found:
            found.bind(("127.0.0.1", 0))
            port = found.getsockname()[1]
        torch.multiprocessing.spawn(exchange, (2, port), nprocs=2)
    if only != "exchange":
        growth()


if __name__ == "__main__":
    main()
