"""Losses and miners against pytorch-metric-learning: time and memory of the same computation, in one process.

    python benchmarks/losses.py --batch 128 512 1024 --dim 512 --json losses.json

Time is forward and backward, the two libraries alternating, median of the repeats; for miners it is mining alone.
Memory is how far a fresh process grows beyond what it held before its first call. Batches have four images per class.
Where the peer's default reduction differs from ours it is set to the same one, so that both compute one number.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import statistics
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from holdfast import losses, mining

Step = Callable[[Tensor, Tensor], Any]
PER_CLASS = 4
HEADS = ("ours ms", "peer ms", "ratio", "ours MiB", "peer MiB")
LOSSES = (
    "contrastive",
    "triplet",
    "triplet-nonzero",
    "triplet-cosine",
    "margin",
    "multi-similarity",
    "multi-similarity-mined",
    "lifted-structure",
    "circle",
    "n-pair",
    "info-nce",
    "sup-con",
)
MINERS = ("random", "distance", "ephn", "multi-similarity")
PEER_LIMIT = {"lifted-structure": 256, "info-nce": 256}
"""Batches beyond which the peer is left out: it builds positive × negative pairs, 12 GiB per tensor at 1024."""


@dataclass
class Row:
    """One line of the table; seconds and MiB."""

    kind: str
    name: str
    batch: int
    dim: int
    ours_s: float
    peer_s: float | None
    ratio: float | None
    ours_mib: float | None
    peer_mib: float | None


def batch_of(size: int, dim: int) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(0)
    labels = torch.arange(size) // PER_CLASS
    centres = torch.randn(size // PER_CLASS + 1, dim, generator=generator)
    vectors = centres[labels] + 1.5 * torch.randn(size, dim, generator=generator)
    return torch.nn.functional.normalize(vectors, dim=1), labels


def our_loss(name: str) -> Step:
    if name == "triplet-nonzero":
        return losses.build("triplet", reduction="nonzero")
    if name == "multi-similarity-mined":
        return losses.build("multi-similarity", miner="multi-similarity")
    return losses.build(name)


def peer_loss(name: str) -> Step:
    from pytorch_metric_learning import distances, miners, reducers
    from pytorch_metric_learning import losses as peers

    mean = reducers.MeanReducer()
    squared = distances.LpDistance(power=2)
    made: dict[str, Callable[[], Any]] = {
        "contrastive": lambda: peers.ContrastiveLoss(neg_margin=1.0, distance=squared),
        "triplet": lambda: peers.TripletMarginLoss(margin=0.2, reducer=mean),
        "triplet-nonzero": lambda: peers.TripletMarginLoss(margin=0.2),
        "triplet-cosine": lambda: peers.TripletMarginLoss(
            margin=0.0, smooth_loss=True, distance=distances.CosineSimilarity(), reducer=mean
        ),
        "margin": lambda: peers.MarginLoss(reducer=reducers.AvgNonZeroReducer(), learn_beta=True),
        "multi-similarity": lambda: peers.MultiSimilarityLoss(beta=40),
        "lifted-structure": peers.LiftedStructureLoss,
        "circle": lambda: peers.CircleLoss(reducer=mean),
        "n-pair": peers.NPairsLoss,
        "info-nce": peers.NTXentLoss,
        "sup-con": peers.SupConLoss,
    }
    if name != "multi-similarity-mined":
        return made[name]()
    loss, miner = made["multi-similarity"](), miners.MultiSimilarityMiner()
    return lambda z, y: loss(z, y, miner(z, y))


def peer_miner(name: str) -> Step:
    from pytorch_metric_learning import miners
    from pytorch_metric_learning.utils import loss_and_miner_utils

    if name == "random":
        return lambda z, y: loss_and_miner_utils.get_random_triplet_indices(y, t_per_anchor=1)
    return {
        "distance": lambda: miners.DistanceWeightedMiner(nonzero_loss_cutoff=2.0),
        "ephn": lambda: miners.BatchEasyHardMiner("easy", "hard"),
        "multi-similarity": miners.MultiSimilarityMiner,
    }[name]()


def step_of(kind: str, name: str, whose: str) -> Step:
    if kind == "miner":
        miner = mining.build(name) if whose == "ours" else peer_miner(name)
        return lambda z, y: miner(z, y)
    loss = our_loss(name) if whose == "ours" else peer_loss(name)

    def step(z: Tensor, y: Tensor) -> Tensor:
        vectors = z.clone().requires_grad_()
        value = loss(vectors, y)
        value.backward()
        return value.detach()

    return step


def growth(kind: str, name: str, whose: str, size: int, dim: int, threads: int) -> float | None:
    """MiB by which this process's peak rises over what it holds before; only Linux can tell."""
    forget = Path("/proc/self/clear_refs")
    if not forget.exists():
        return None
    torch.set_num_threads(threads)
    z, y = batch_of(size, dim)
    step = step_of(kind, name, whose)
    step(z[: 4 * PER_CLASS], y[: 4 * PER_CLASS])  # imports, thread pools and kernels are no memory of the method
    forget.write_text("5")  # sets the recorded peak back to the present
    before = resident("VmRSS")
    step(z, y)
    return resident("VmHWM") - before


def resident(field: str) -> float:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(field)) / 1024


def alternate(calls: list[Callable[[], object]], repeats: int) -> list[float]:
    times: list[list[float]] = [[] for _ in calls]
    for _ in range(repeats + 1):
        for call, record in zip(calls, times, strict=True):
            start = time.perf_counter()
            call()
            record.append(time.perf_counter() - start)
    return [statistics.median(record[1:]) for record in times]


def measure(kind: str, name: str, size: int, dim: int, repeats: int, threads: int) -> Row:
    z, y = batch_of(size, dim)
    both = kind == "miner" or size <= PEER_LIMIT.get(name, size)
    steps = {whose: step_of(kind, name, whose) for whose in (("ours", "peer") if both else ("ours",))}
    if kind == "loss" and both:
        torch.testing.assert_close(steps["ours"](z, y), steps["peer"](z, y), rtol=1e-4, atol=1e-5)
    seconds = alternate([lambda step=step: step(z, y) for step in steps.values()], repeats)
    # A process per measurement: what one leaves allocated would hide what the next needs.
    memory = []
    for whose in steps:
        with multiprocessing.get_context("spawn").Pool(1) as pool:
            memory.append(pool.apply(growth, (kind, name, whose, size, dim, threads)))
    peer_s, peer_mib = (seconds[1], memory[1]) if both else (None, None)
    ratio = peer_s / seconds[0] if peer_s is not None else None
    return Row(kind, name, size, dim, seconds[0], peer_s, ratio, memory[0], peer_mib)


def cell(value: float | None, digits: int) -> str:
    return f"{'-':>10}" if value is None else f"{value:10.{digits}f}"


def main() -> None:
    parser = argparse.ArgumentParser(description="Time and memory of losses and miners against their peer.")
    parser.add_argument("--batch", type=int, nargs="+", default=[128, 512, 1024])
    parser.add_argument("--dim", type=int, default=512)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--only", nargs="+", default=[*LOSSES, *MINERS], help="names to run")
    parser.add_argument("--json", type=Path, help="write the rows there")
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)

    print(f"{'':7}{'name':24}{'batch':>6}" + "".join(f"{head:>10}" for head in HEADS))
    rows = []
    for kind, names in (("loss", LOSSES), ("miner", MINERS)):
        for name in (n for n in names if n in arguments.only):
            for size in arguments.batch:
                row = measure(kind, name, size, arguments.dim, arguments.repeats, arguments.threads)
                rows.append(row)
                peer_ms = None if row.peer_s is None else 1e3 * row.peer_s
                cells = cell(1e3 * row.ours_s, 2) + cell(peer_ms, 2) + cell(row.ratio, 1)
                cells += cell(row.ours_mib, 0) + cell(row.peer_mib, 0)
                print(f"{kind:7}{name:24}{size:6}{cells}", flush=True)
    if arguments.json:
        arguments.json.write_text(json.dumps([asdict(row) for row in rows], indent=2) + "\n")


if __name__ == "__main__":
    main()
