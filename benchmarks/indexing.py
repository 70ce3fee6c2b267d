"""Rates of the stages from images to an index, and what a search of each kind takes, on this CPU.

python benchmarks/indexing.py --json runs/bench/indexing.json
"""

from __future__ import annotations

import argparse
import itertools
import os
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from timing import processor, write

from holdfast.data import ImageTable
from holdfast.data.sources import ArraySource
from holdfast.search import Index, IndexedImages, MemoryIndex, ModelFacts, read_index, save_vectors, write_index
from holdfast.search.collection import Collection
from holdfast.search.embedding import fingerprints_of
from holdfast.search.milvus import MilvusIndex
from holdfast.view import View

CANVAS = 256
SHARD = 100_000
TOGETHER = 32
K = 10


def drawn(count: int, dim: int, seed: int) -> NDArray[np.float32]:
    """Unit vectors around a thousand centres, as embeddings lie around classes."""
    draw = np.random.default_rng(seed)
    centres = 2 * np.random.default_rng(0).standard_normal((1000, dim)).astype(np.float32)
    vectors = draw.standard_normal((count, dim), np.float32) + centres[draw.integers(1000, size=count)]
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    return vectors


def images_of(count: int) -> IndexedImages:
    """What an index keeps of images in folders of a thousand classes."""
    labels = [f"class-{i % 1000:03d}" for i in range(count)]
    prints = np.random.default_rng(1).integers(0, 256, (count, 16), dtype=np.uint8)
    return IndexedImages([f"{label}/{i:09d}.jpg" for i, label in enumerate(labels)], labels, [""] * count, prints)


def took(work: Callable[[], object], repeats: int = 1) -> float:
    """The best of some calls, in seconds."""
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return min(times)


def searches(index: Index, dim: int) -> dict[str, float]:
    """Milliseconds of a query alone, and of one among many that are asked together."""
    queries = drawn(TOGETHER, dim, 2)
    index.prepare()
    index.search(queries, K)  # whatever is made ready at the first
    alone = itertools.cycle(range(TOGETHER))
    one = took(lambda: index.search(queries[[next(alone)]], K), 9)
    return {"ms alone": 1e3 * one, "ms of many": 1e3 * took(lambda: index.search(queries, K), 3) / TOGETHER}


def stages(dim: int, folder: Path) -> list[dict[str, Any]]:
    """Rows per second of what is done once for each image, but decoding and embedding."""
    pixels = [np.random.default_rng(i).integers(0, 256, (CANVAS, CANVAS, 3), dtype=np.uint8) for i in range(64)]
    digests = 64 / took(lambda: fingerprints_of(pixels), 5)
    vectors, images = drawn(SHARD, dim, 1), images_of(SHARD)
    blank = ArraySource(np.zeros((SHARD, 1, 1, 3), np.uint8))
    table = ImageTable.of(blank, classes=images.labels, splits=["test"] * SHARD, ids=images.ids, name="bench")
    shard = folder / "shard.parquet"
    written = SHARD / took(lambda: save_vectors(shard, torch.from_numpy(vectors), table))
    collection = Collection(str(folder / "milvus.db"), "bench", dim)
    collection.create()
    put = took(lambda: collection.put(vectors, images))
    settled = took(collection.settle)
    known = 10_000 / took(lambda: collection.known(images.ids[:10_000]))
    facts = ModelFacts("nobody", "", View(32), vectors[:1])
    asked = searches(MilvusIndex(collection, model=facts, kind="milvus"), dim)
    held = sum(file.stat().st_size for file in (folder / "milvus.db").rglob("*") if file.is_file())
    return [
        {"stage": "fingerprint", "per second": digests, "pixels": CANVAS},
        {"stage": "parquet", "per second": written, "bytes per row": shard.stat().st_size / SHARD},
        {"stage": "milvus put", "per second": SHARD / (put + settled), "bytes per row": held / SHARD},
        {"stage": "milvus known", "per second": known},
        {"kind": "milvus", "vectors": SHARD, **asked},
    ]


def in_memory(kind: str, count: int, dim: int, folder: Path) -> dict[str, Any]:
    """Seconds to write, open and prepare an index, and milliseconds of a search."""
    vectors = drawn(count, dim, 1)
    facts = ModelFacts("nobody", "", View(32), vectors[:1])
    made = MemoryIndex(vectors, images_of(count), model=facts, kind=kind)
    folder.mkdir()
    wrote = took(lambda: write_index(folder, made))
    opened = took(lambda: read_index(folder))
    prepared = took(made.prepare)
    return {
        "kind": kind,
        "vectors": count,
        "s to write": wrote,
        "s to open": opened,
        "s to prepare": prepared,
        **searches(made, dim),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--dim", type=int, default=128)
    parser.add_argument("--vectors", type=int, nargs="+", default=[100_000, 1_000_000])
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    rows: list[dict[str, Any]] = [{"machine": processor(len(os.sched_getaffinity(0))), "dim": options.dim}]
    with tempfile.TemporaryDirectory() as made:
        rows += stages(options.dim, Path(made))
        for count, kind in itertools.product(options.vectors, ("flat", "ivf", "hnsw")):
            rows.append(in_memory(kind, count, options.dim, Path(made) / f"{kind}-{count}"))
    for row in rows:
        shown = {name: f"{value:,.4g}" if isinstance(value, float) else value for name, value in row.items()}
        print(", ".join(f"{name} {value}" for name, value in shown.items()))
    write(rows, options.json)


if __name__ == "__main__":
    main()
