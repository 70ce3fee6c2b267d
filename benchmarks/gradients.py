"""Direct gradients against the matrix-form triplet loss: time of forward and backward, in one process.

    python benchmarks/gradients.py --batch 128 512 --dim 512 --json gradients.json

A step is mining included: a rule mines its triplets with `ephn`, the triplet loss takes all of them. They alternate;
medians of the repeats. The ratio is ours over the triplet loss; above 3 the program ends with an error.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable
from pathlib import Path

import torch
from timing import medians
from torch import Tensor

from holdfast import gradients, losses

PER_CLASS = 4
LIMIT = 3.0


def batch_of(size: int, dim: int) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(0)
    labels = torch.arange(size) // PER_CLASS
    centres = torch.randn(size // PER_CLASS + 1, dim, generator=generator)
    vectors = centres[labels] + 1.5 * torch.randn(size, dim, generator=generator)
    return torch.nn.functional.normalize(vectors, dim=1), labels


def step(loss: losses.Loss, z: Tensor, labels: Tensor) -> Callable[[], None]:
    leaf = z.clone().requires_grad_()

    def once() -> None:
        loss(leaf, labels).backward()
        leaf.grad = None

    return once


def main() -> None:
    parser = argparse.ArgumentParser(description="Time of direct gradients against the matrix-form triplet loss.")
    parser.add_argument("--batch", type=int, nargs="+", default=[128, 512])
    parser.add_argument("--dim", type=int, default=512)
    parser.add_argument("--repeats", type=int, default=15)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--json", type=Path, help="write the rows there")
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)

    rows = []
    print(f"{'rule':20}{'batch':>6}{'ms':>10}{'triplet ms':>12}{'ratio':>8}")
    for size in arguments.batch:
        z, labels = batch_of(size, arguments.dim)
        steps = {name: step(gradients.named(name), z, labels) for name in gradients.names()}
        seconds = medians({"triplet": step(losses.build("triplet"), z, labels), **steps}, arguments.repeats)
        peer = seconds.pop("triplet")
        for name, own in seconds.items():
            rows.append({"rule": name, "batch": size, "dim": arguments.dim, "seconds": own, "triplet_seconds": peer})
            print(f"{name:20}{size:6}{1e3 * own:10.2f}{1e3 * peer:12.2f}{own / peer:8.2f}")
    if arguments.json:
        arguments.json.write_text(json.dumps(rows, indent=2) + "\n")
    if any(row["seconds"] > LIMIT * row["triplet_seconds"] for row in rows if row["batch"] == 512):
        sys.exit(f"a rule takes more than {LIMIT:g} times as long as the triplet loss at a batch of 512")


if __name__ == "__main__":
    main()
