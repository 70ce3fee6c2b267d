"""How often `holdfast search` marks an attacked query, and how often a clean one.

    python benchmarks/tampering.py runs/demo --data glyphs --queries 400 --json tampering.json

The test images are the index. A part of them calibrates, another part is asked clean, and a third is attacked: each
asks among the others, with its own clean copy left out, as a picture that is not in the index would. The plain attacker
does not know of the check; the knowing one attacks the mean vector of the picture and its shifted copies.
"""

from __future__ import annotations

import argparse
import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import torch
from timing import write
from torch import Tensor, nn

from holdfast import attacks
from holdfast.attacks import Budget
from holdfast.audit.preparation import Execution, Selection, borrow_model, make_subject
from holdfast.audit.subject import Subject
from holdfast.data import ImageStore, ImageTable, load
from holdfast.data.sources import ArraySource
from holdfast.search import Detector, IndexedImages, MemoryIndex, statistics
from holdfast.search.embedding import changed_copies, embed_images, fingerprint_images, measure_moves, model_facts
from holdfast.search.querying import SIGNS
from holdfast.view import View

GOALS = ("es", "qa+", "misrank")
BLOCK = 100
CLEAN = "clean"


def as_store(images: Tensor) -> ImageStore:
    """Attacked images as a person would send them: eight bits per pixel."""
    pixels = (images * 255).round().to(torch.uint8).permute(0, 2, 3, 1).contiguous().numpy()
    count = len(pixels)
    table = ImageTable.of(
        ArraySource(pixels),
        classes=["?"] * count,
        splits=["query"] * count,
        ids=[str(i) for i in range(count)],
        name="q",
    )
    return ImageStore(table, View(pixels.shape[1]), images.device)


class Averaged(nn.Module):
    """The mean vector of a picture and its shifted copies: a model that a knowing attacker attacks in place of ours."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model
        self.training = model.training

    def forward(self, images: Tensor) -> Tensor:
        """The mean."""
        return torch.stack([self.model(copy) for copy in (images, *changed_copies(images, 0)[1])]).mean(0)


def attacked(subject: Subject, goal: str, eps: float) -> Tensor:
    budget = Budget(eps=eps, step=3 / 8 * eps, steps=32)
    bound = attacks.build(goal).bind(subject.references, subject.rows, subject.generator("targets", goal))
    parts = []
    for start in range(0, len(subject.rows), BLOCK):
        block = slice(start, start + BLOCK)
        images = subject.images(subject.rows[block])
        parts.append(subject.attack(images, bound.take(block), budget, subject.generator("search", goal, start)).images)
    return torch.cat(parts)


def measure(arguments: argparse.Namespace) -> list[dict[str, Any]]:
    with borrow_model(arguments.model, None, False, torch.device("cpu")) as (model, _):
        selection = Selection(load(arguments.data), "test", arguments.queries)
        subject, _, _ = make_subject(model, selection, Execution(batch=256))
        store, rows = subject.store, subject.rows.numpy()
        fingerprints = fingerprint_images(store, np.arange(len(store)), 256)
        vectors = subject.references.vectors.numpy()
        facts = model_facts(model, "")
        unknown = [""] * len(vectors)
        index = MemoryIndex(vectors, IndexedImages(store.table.ids, unknown, unknown, fingerprints), model=facts)
        others = np.random.default_rng(0).permutation(np.setdiff1d(np.arange(len(vectors)), rows))
        calibrating, asked = others[: arguments.calibrate], others[arguments.calibrate :]
        moves = measure_moves(model, store, calibrating, vectors[calibrating])
        clean = statistics(index, vectors[calibrating], moves, fingerprints[calibrating])
        labels = store.table.labels
        nearest = index.search(vectors[asked], 1, without=fingerprints[asked]).rows[:, 0]
        right = {CLEAN: 100 * float((labels[nearest] == labels[asked]).mean())}
        moves = measure_moves(model, store, asked, vectors[asked])
        values = {CLEAN: statistics(index, vectors[asked], moves, fingerprints[asked])}
        knowing = dataclasses.replace(subject, model=Averaged(model))
        for attacker, suffix in ((subject, ""), (knowing, " knowing")):
            for goal in GOALS:
                queries = as_store(attacked(attacker, goal, arguments.eps / 255))
                found_vectors, _ = embed_images(model, queries, np.arange(len(rows)))
                moves = measure_moves(model, queries, np.arange(len(rows)), found_vectors)
                values[goal + suffix] = statistics(index, found_vectors, moves, fingerprints[rows])
                nearest = index.search(found_vectors, 1, without=fingerprints[rows]).rows[:, 0]
                right[goal + suffix] = 100 * float((labels[nearest] == labels[rows]).mean())
    found = []
    for rate in arguments.false_alarms:
        detector = Detector(clean, rate)
        for name, each in values.items():
            verdicts = detector.judge(each)
            row = {"false_alarms": rate, "queries": name, "count": len(each)}
            row["R@1"] = right[name]
            row["marked"] = 100 * sum(v.tampered for v in verdicts) / len(each)
            found.append(row | {sign: 100 * sum(sign in v.why for v in verdicts) / len(each) for sign in SIGNS})
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("--data", default="glyphs")
    parser.add_argument("--queries", type=int, default=400)
    parser.add_argument("--calibrate", type=int, default=1000)
    parser.add_argument("--eps", type=float, default=8, help="in 255ths")
    parser.add_argument("--false-alarms", type=float, nargs="+", default=[0.01, 0.05])
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    rows = measure(arguments)
    for row in rows:
        by_sign = " ".join(f"{row[sign]:5.1f}" for sign in SIGNS)
        who = f"{row['false_alarms']:5g}  {row['queries']:16s} {row['count']:5d}  R@1 {row['R@1']:5.1f}"
        print(f"{who}  {row['marked']:5.1f} %   {by_sign}")
    write(rows, arguments.json)


if __name__ == "__main__":
    main()
