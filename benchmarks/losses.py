"""Losses and miners against pytorch-metric-learning: time and memory of the same computation, in one process.

    python benchmarks/losses.py --batch 128 512 1024 --dim 512 --json losses.json --table losses.md

Time is forward and backward, all that is compared alternating, median of the repeats; for miners it is mining alone.
With one thread it is processor time, in which other work on the machine does not count. Plain is the formula in a few
lines (`plain_losses.py`), for batches small enough to list all triplets. The floor is the matrix products that cannot
be left out, timed on their own: two n × n × dim for a loss (similarities, and one product on the way back, as the
matrix is symmetric), one for a miner that looks at distances.
Memory is how far a fresh process grows beyond what it held before its first call. Batches have four images per class.
Where the peer's default reduction differs from ours it is set to the same one, so that both compute one number.
"""

from __future__ import annotations

import argparse
import functools
import itertools
import json
import multiprocessing
import statistics
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import plain_losses
import torch
from timing import processor
from torch import Tensor

from holdfast import losses, mining

Step = Callable[[Tensor, Tensor], Any]
PER_CLASS = 4
PATIENCE = 4.0
"""Seconds after which a row gets no further repeat."""

HEADS = ("ours ms", "plain ms", "peer ms", "floor ms", "plain/ours", "peer/ours", "x floor", "ours MiB", "peer MiB")
LOSSES = (
    "contrastive",
    "triplet",
    "triplet-nonzero",
    "triplet-cosine",
    "sct",
    "linear",
    "margin",
    "binomial-deviance",
    "multi-similarity",
    "multi-similarity-mined",
    "lifted-structure",
    "circle",
    "n-pair",
    "info-nce",
    "sup-con",
)
MINERS = ("random", "distance", "ephn", "multi-similarity")
PAIRS = ("contrastive", "multi-similarity", "multi-similarity-mined", "circle", "n-pair", "sup-con")
GOAL = 3.0
"""Times as fast as the peer: what pair losses should reach on large batches."""

PLAIN_LIMIT = 256
"""Batches up to which the plain lines are timed, some of which list all triplets."""

PEER_LIMIT = {
    "sct": 0,
    "linear": 0,
    "binomial-deviance": 0,
    "lifted-structure": 256,
    "info-nce": 256,
    "triplet": 1024,
    "triplet-nonzero": 1024,
    "triplet-cosine": 1024,
    "margin": 1024,
}
"""Batches beyond which the peer is left out: it has no such loss, or lists triplets or positive × negative pairs."""


@dataclass
class Row:
    """One line of the table; seconds and MiB."""

    kind: str
    name: str
    batch: int
    dim: int
    ours_s: float
    peer_s: float | None
    floor_s: float | None
    ours_mib: float | None
    peer_mib: float | None
    plain_s: float | None = None

    @property
    def ratio(self) -> float | None:
        """How many times longer the peer takes."""
        return None if self.peer_s is None else self.peer_s / self.ours_s

    def cells(self) -> list[str]:
        """The figures of the row, as `HEADS` names them."""
        over = None if self.floor_s is None else self.ours_s / self.floor_s
        plain = None if self.plain_s is None else self.plain_s / self.ours_s
        seconds = (self.ours_s, self.plain_s, self.peer_s, self.floor_s)
        figures: list[tuple[float | None, int]] = [(None if value is None else 1e3 * value, 2) for value in seconds]
        figures += [(plain, 2), (self.ratio, 1), (over, 1), (self.ours_mib, 0), (self.peer_mib, 0)]
        return ["-" if value is None else f"{value:.{digits}f}" for value, digits in figures]


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


def plain_loss(name: str) -> Step:
    step: Step = getattr(plain_losses, name.replace("-", "_"))
    return step


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
    made: dict[str, Callable[[str], Step]] = {"ours": our_loss, "peer": peer_loss, "plain": plain_loss}
    loss = made[whose](name)

    def step(z: Tensor, y: Tensor) -> Tensor:
        vectors = z.clone().requires_grad_()
        value = loss(vectors, y)
        value.backward()
        return value.detach()

    return step


def floor_of(kind: str, name: str, size: int, dim: int) -> Callable[[], object] | None:
    """The matrix products that a row cannot do without; none where it needs no distances."""
    if name == "random":
        return None
    rows = size // PER_CLASS if name == "n-pair" else size
    z, matrix = torch.randn(rows, dim), torch.randn(rows, rows)
    if kind == "miner":
        return lambda: z @ z.T
    if name == "n-pair":  # its matrix is not symmetric: one side is the first images, the other the second
        return lambda: (z @ z.T, matrix @ z, matrix.T @ z)
    return lambda: (z @ z.T, matrix @ z)


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


def alternate(calls: list[Callable[[], object]], repeats: int, threads: int) -> list[float]:
    clock = time.process_time if threads == 1 else time.perf_counter
    times: list[list[float]] = [[] for _ in calls]
    began = time.perf_counter()
    for repeat in range(repeats + 1):
        if repeat > 1 and time.perf_counter() - began > PATIENCE:
            break
        for call, record in zip(calls, times, strict=True):
            start = clock()
            call()
            record.append(clock() - start)
    return [statistics.median(record[1:]) for record in times]


def measure(kind: str, name: str, size: int, dim: int, repeats: int, threads: int, memory: bool) -> Row:
    z, y = batch_of(size, dim)
    wanted = ["ours"]
    if kind == "miner" or size <= PEER_LIMIT.get(name, size):
        wanted.append("peer")
    if kind == "loss" and size <= PLAIN_LIMIT:
        wanted.append("plain")
    steps = {whose: step_of(kind, name, whose) for whose in wanted}
    for whose in wanted[1:] if kind == "loss" else ():
        torch.testing.assert_close(steps["ours"](z, y), steps[whose](z, y), rtol=1e-4, atol=1e-5)
    calls: dict[str, Callable[[], object]] = {whose: functools.partial(step, z, y) for whose, step in steps.items()}
    floor = floor_of(kind, name, size, dim)
    if floor is not None:
        calls["floor"] = floor
    seconds = dict(zip(calls, alternate(list(calls.values()), repeats, threads), strict=True))
    mib = {}
    for whose in [whose for whose in wanted if whose != "plain"] if memory else ():
        # A process per measurement: what one leaves allocated would hide what the next needs.
        with multiprocessing.get_context("spawn").Pool(1) as pool:
            mib[whose] = pool.apply(growth, (kind, name, whose, size, dim, threads))
    return Row(
        kind,
        name,
        size,
        dim,
        seconds["ours"],
        seconds.get("peer"),
        seconds.get("floor"),
        mib.get("ours"),
        mib.get("peer"),
        seconds.get("plain"),
    )


def table(rows: list[Row], threads: int, note: str) -> str:
    """The rows as a document, after a note on how they were measured."""
    heads = ["", "name", "batch", "dim", *HEADS]
    lines = [[row.kind, row.name, str(row.batch), str(row.dim), *row.cells()] for row in rows]
    body = "\n".join("| " + " | ".join(line) + " |" for line in (heads, ["---"] * len(heads), *lines))
    return TITLE.format(hardware=hardware(threads)) + goal(rows) + (note and note + "\n\n") + body + "\n"


def goal(rows: list[Row]) -> str:
    """How many rows are as fast as plain lines, and how many of the large ones several times as fast as the peer."""
    plain = [row for row in rows if row.plain_s is not None]
    behind = [f"{row.name} {row.batch} × {row.dim}" for row in plain if (row.plain_s or 0) < row.ours_s]
    large = [row for row in rows if row.kind == "loss" and row.name in PAIRS and row.batch >= 1024 and row.ratio]
    slow = [row for row in large if (row.ratio or 0) < GOAL]
    listed = "; ".join(
        f"{row.name} {row.batch} × {row.dim} {row.ratio:.1f} ({(row.peer_s or 0) / row.floor_s:.1f})"
        for row in slow
        if row.floor_s
    )
    return GOAL_TEXT.format(
        quick=len(plain) - len(behind),
        plain=len(plain),
        behind="; ".join(behind) or "none",
        fast=len(large) - len(slow),
        large=len(large),
        goal=GOAL,
        listed=listed or "none",
    )


GOAL_TEXT = """{quick} of {plain} rows are at least as fast as the formula in plain lines; not: {behind}.

Pair losses at batches of 1024 and more: {fast} of {large} rows are {goal:g} times as fast as the peer or faster. Those
that are not, with the ratio and in brackets what it would be if the two matrix products alone took time: {listed}.

"""

TITLE = """# Losses and miners against pytorch-metric-learning

Written by `benchmarks/losses.py` on {hardware}, float32, four images per class. *plain* is the formula in a few lines
(`benchmarks/plain_losses.py`), *peer* is pytorch-metric-learning; *x floor* is ours / the matrix products alone, timed
in the same run. A dash: the peer has no such loss or is left out for its memory (all triplets, or positive × negative
pairs, in a list), the batch is too large for the plain lines, the row needs no matrix product, or memory was not
measured.

"""


def hardware(threads: int) -> str:
    """What it ran on."""
    return processor(threads)


def read(file: Path) -> list[Row]:
    """Rows of an earlier run."""
    found = json.loads(file.read_text())["rows"]
    return [Row(**{key: value for key, value in row.items() if key != "ratio"}) for row in found]


def write(rows: list[Row], arguments: argparse.Namespace) -> None:
    """What has been measured so far, loss by loss; of a row measured twice, the later."""
    rows = list({(row.kind, row.name, row.batch, row.dim): row for row in rows}.values())
    rows.sort(key=lambda row: (row.kind, [*LOSSES, *MINERS].index(row.name), row.batch, -row.dim))
    if arguments.json:
        found = [asdict(row) | {"ratio": row.ratio} for row in rows]
        arguments.json.write_text(json.dumps({"hardware": hardware(arguments.threads), "rows": found}, indent=2) + "\n")
    if arguments.table:
        arguments.table.write_text(table(rows, arguments.threads, arguments.note))


def main() -> None:
    parser = argparse.ArgumentParser(description="Time and memory of losses and miners against their peer.")
    parser.add_argument("--batch", type=int, nargs="+", default=[128, 256, 512, 1024, 2048, 4096])
    parser.add_argument("--dim", type=int, nargs="+", default=[512, 128])
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--only", nargs="+", default=[*LOSSES, *MINERS], help="names to run")
    parser.add_argument("--memory", type=int, nargs="*", default=[1024], help="batches whose memory is measured")
    parser.add_argument("--json", type=Path, help="write the rows there")
    parser.add_argument("--keep", action="store_true", help="add to the rows that --json holds already")
    parser.add_argument("--table", type=Path, help="write a document there")
    parser.add_argument("--note", default="", help="a paragraph for the document")
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)

    print(f"{'':7}{'name':24}{'batch':>6}{'dim':>5}" + "".join(f"{head:>10}" for head in HEADS))
    rows = read(arguments.json) if arguments.keep else []
    known = [(kind, name) for kind, names in (("loss", LOSSES), ("miner", MINERS)) for name in names]
    wanted = [(kind, name) for kind, name in known if name in arguments.only]
    for size, dim, (kind, name) in itertools.product(arguments.batch, arguments.dim, wanted):
        memory = size in arguments.memory
        row = measure(kind, name, size, dim, arguments.repeats, arguments.threads, memory)
        rows.append(row)
        print(f"{kind:7}{name:24}{size:6}{dim:5}" + "".join(f"{cell:>10}" for cell in row.cells()), flush=True)
        write(rows, arguments)  # after every row: the last ones take longest


if __name__ == "__main__":
    main()
