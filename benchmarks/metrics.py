"""Metrics against the usual ways of computing them: time and memory for the same numbers, in one run.

    python benchmarks/metrics.py --sizes 5924 60502 --dim 512 --json metrics.json
    python benchmarks/metrics.py --sizes 1000000 --dim 128 --queries 10000 --only recall faiss-recall ours faiss

- recall: ours asked for R@1 alone; faiss-recall: `IndexFlatL2` for the nearest one (or two, the query being one).
- full-sort: similarities of all queries with the whole gallery in one matrix, sorted, labels looked up.
- faiss: `IndexFlatL2` for as many neighbours as the largest class has, then numpy. It has no mAP, which needs ranks
  beyond those; all else is the same.
- faiss-kmeans: `faiss.Kmeans` with as many iterations, on all vectors.

Every measurement has a fresh process to itself: seconds are the best of the repeats after a warm-up on little data,
CPU the seconds that all threads worked (on a busy machine set OMP_NUM_THREADS=1 and look at these), MiB how far the
process grew at its peak beyond holding the vectors. A set of more than 10,000 is searched by `--queries` of its vectors
only, by all contenders alike; `--evaluate` adds `holdfast.metrics.evaluate` on whole sets.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import resource
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from holdfast import metrics

SMALL = 10_000
PER_CLASS = 5
ITERATIONS = 10
VECTORS_PER_CLUSTER = 60


@dataclass(frozen=True)
class Task:
    """What is searched or clustered."""

    vectors: int
    queries: int
    dim: int
    repeats: int


@dataclass(frozen=True)
class Row:
    """One line of the table; `score` is R@1 or NMI, to show that contenders agree."""

    contender: str
    vectors: int
    queries: int
    dim: int
    seconds: float
    cpu_seconds: float
    mib: float
    score: float
    ratio: float | None = None


def sample(task: Task) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(0)
    labels = torch.arange(task.vectors) // PER_CLASS
    centres = torch.randn(task.vectors // PER_CLASS + 1, task.dim, generator=generator)
    vectors = centres[labels] + 1.9 * torch.randn(task.vectors, task.dim, generator=generator)
    order = torch.randperm(task.vectors, generator=generator)
    return torch.nn.functional.normalize(vectors, dim=1)[order], labels[order]


def ours(vectors: Tensor, labels: Tensor, queries: int, averages: bool = True) -> float:
    ks = (1, 2, 4, 8) if averages else (1,)
    if queries == len(vectors):
        values = metrics.retrieval(vectors, labels, ks, averages=averages)
    else:
        gallery, gallery_labels = vectors[queries:], labels[queries:]
        values = metrics.retrieval(
            vectors[:queries], labels[:queries], ks, gallery=gallery, gallery_labels=gallery_labels, averages=averages
        )
    assert values["R@1"] is not None
    return values["R@1"]


def full_sort(vectors: Tensor, labels: Tensor, queries: int) -> float:
    alone = queries == len(vectors)
    gallery, gallery_labels = (vectors, labels) if alone else (vectors[queries:], labels[queries:])
    similarity = vectors[:queries] @ gallery.T
    if alone:
        similarity.fill_diagonal_(-torch.inf)
    order = similarity.argsort(dim=1, descending=True)
    hits = gallery_labels[order] == labels[:queries, None]
    if alone:
        hits[:, -1] = False
    hits = hits[hits.any(1)]
    matches = hits.sum(1, keepdim=True)
    position = torch.arange(1, hits.shape[1] + 1)
    precision = hits * hits.cumsum(1) / position
    for window in (hits.shape[1], matches, matches + 1):  # mAP, mAP@R, mAP@C
        (precision * (position <= window)).sum(1).mean()
    return 100 * hits[:, 0].float().mean().item()


def faiss_search(vectors: Tensor, labels: Tensor, queries: int, averages: bool = True) -> float:
    import faiss

    alone = queries == len(vectors)
    gallery, gallery_labels = (vectors, labels) if alone else (vectors[queries:], labels[queries:])
    classes, wanted = gallery_labels.numpy(), labels[:queries].numpy()
    sizes = np.bincount(classes, minlength=int(labels.max()) + 1)
    matches = sizes[wanted] - int(alone)
    index = faiss.IndexFlatL2(vectors.shape[1])
    index.add(gallery.numpy())
    found = index.search(vectors[:queries].numpy(), int(sizes.max()) + 1 if averages else 1 + int(alone))[1]
    if alone:  # the query itself, wherever it stands, or else the last one
        itself = found == np.arange(queries)[:, None]
        itself[~itself.any(1), -1] = True
        found = found[~itself].reshape(queries, -1)
    hits = (classes[found] == wanted[:, None])[matches > 0]
    position = np.arange(1, hits.shape[1] + 1)
    precision = hits * hits.cumsum(1) / position
    for window in (0, 1) if averages else ():  # mAP@R, mAP@C
        (precision * (position <= matches[matches > 0, None] + window)).sum(1).mean()
    return float(100 * hits[:, 0].mean())


def our_kmeans(vectors: Tensor, labels: Tensor, queries: int) -> float:
    clusters = metrics.kmeans(vectors, len(vectors) // VECTORS_PER_CLUSTER, seed=0, iterations=ITERATIONS)
    return 100 * metrics.nmi(labels, clusters)


def faiss_kmeans(vectors: Tensor, labels: Tensor, queries: int) -> float:
    import faiss

    count = len(vectors) // VECTORS_PER_CLUSTER
    trained = faiss.Kmeans(vectors.shape[1], count, niter=ITERATIONS, seed=1, max_points_per_centroid=10**9)
    trained.train(vectors.numpy())
    return 100 * metrics.nmi(labels, torch.from_numpy(trained.index.search(vectors.numpy(), 1)[1][:, 0]))


def everything(vectors: Tensor, labels: Tensor, queries: int) -> float:
    recall = metrics.evaluate(vectors, labels).values["R@1"]
    assert recall is not None
    return recall


CONTENDERS: dict[str, Callable[[Tensor, Tensor, int], float]] = {
    "recall": partial(ours, averages=False),
    "faiss-recall": partial(faiss_search, averages=False),
    "ours": ours,
    "full-sort": full_sort,
    "faiss": faiss_search,
    "our-kmeans": our_kmeans,
    "faiss-kmeans": faiss_kmeans,
    "evaluate": everything,
}
PEERS = {"faiss-recall": "recall", "full-sort": "ours", "faiss": "ours", "faiss-kmeans": "our-kmeans"}


def peak() -> float:
    """The most memory this process has held, in MiB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (2**20 if sys.platform == "darwin" else 2**10)


def measure(name: str, task: Task, folder: Path) -> Row:
    contender = CONTENDERS[name]
    contender(*sample(Task(600, 600, task.dim, 1)), 600)
    vectors, labels = (torch.from_numpy(np.load(folder / f"{part}.npy")) for part in ("vectors", "labels"))
    before = peak()
    seconds, worked = [], []
    for _ in range(task.repeats):
        start, worked_before = time.perf_counter(), time.process_time()
        score = contender(vectors, labels, task.queries)
        seconds.append(time.perf_counter() - start)
        worked.append(time.process_time() - worked_before)
    return Row(name, task.vectors, task.queries, task.dim, min(seconds), min(worked), peak() - before, score)


def save_sample(task: Task, folder: Path) -> None:
    for part, values in zip(("vectors", "labels"), sample(task), strict=True):
        np.save(folder / f"{part}.npy", values.numpy())


def fresh_process() -> ProcessPoolExecutor:
    """A child's peak starts at what its parent holds, so everything large, samples too, is made in children."""
    return ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn"))


def compare(names: list[str], task: Task, folder: Path) -> list[Row]:
    rows: dict[str, Row] = {}
    for name in names:
        with fresh_process() as process:
            row = process.submit(measure, name, task, folder).result()
        if name in PEERS:
            row = Row(**asdict(row) | {"ratio": row.seconds / rows[PEERS[name]].seconds})
        rows[name] = row
        times = "" if row.ratio is None else f"{row.ratio:8.1f}"
        print(
            f"{row.contender:14} {row.vectors:8,} {row.queries:8,} {row.seconds:9.2f} {row.cpu_seconds:9.2f} "
            f"{row.mib:9.0f} {row.score:8.2f} {times}",
            flush=True,
        )
    return list(rows.values())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", type=int, nargs="+", default=[5924, 60502], help="vectors per set")
    parser.add_argument("--queries", type=int, default=2000, help="queries of a large set")
    parser.add_argument("--dim", type=int, default=512)
    parser.add_argument("--repeats", type=int, default=2)
    parser.add_argument("--only", nargs="+", choices=CONTENDERS, default=list(CONTENDERS)[:7], help="ours before peers")
    parser.add_argument("--evaluate", action="store_true", help="also time every metric on the whole sets")
    parser.add_argument("--json", type=Path, help="also write the rows to this file")
    arguments = parser.parse_args()
    print(f"{'contender':14} {'vectors':>8} {'queries':>8} {'seconds':>9} {'CPU':>9}", end=" ")
    print(f"{'MiB':>9} {'score':>8} {'× ours':>8}")
    rows: list[Row] = []
    for size in arguments.sizes:
        task = Task(size, size if size <= SMALL else arguments.queries, arguments.dim, arguments.repeats)
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            with fresh_process() as process:
                process.submit(save_sample, task, folder).result()
            rows += compare(arguments.only, task, folder)
            if arguments.evaluate:
                rows += compare(["evaluate"], Task(size, size, arguments.dim, 1), folder)
    if arguments.json:
        arguments.json.write_text(json.dumps([asdict(row) for row in rows], indent=2) + "\n")


if __name__ == "__main__":
    main()
