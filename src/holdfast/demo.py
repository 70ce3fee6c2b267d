"""The demo: learn glyphs, then retrieve characters that were never seen."""

from __future__ import annotations

import json
from pathlib import Path

import torch

from holdfast import metrics, seeds
from holdfast.console import Console, table
from holdfast.data import ImageStore, ImageTable, load
from holdfast.evaluation import embed, evaluate
from holdfast.models import Embedder, load_model
from holdfast.training import train

SHOWN = ("R@1", "R@2", "R@4", "R@8", "mAP@R", "NMI")
QUERIES, MATCHES = 8, 6


def demo(out: Path, console: Console, as_json: bool = False) -> None:
    """Train the pocket recipe on glyphs and print how well unseen characters are found.

    Args:
        out: run folder.
        console: shows progress.
        as_json: print one JSON object instead of the tables.
    """
    console.say("holdfast learns letters from some scripts and is then asked for letters it has never seen.")
    run = train("pocket", "glyphs", out=out, console=console)
    images = load(run.recipe.data.plain)
    torch.manual_seed(seeds.derive(run.recipe.seed, "weights"))
    before = evaluate(run.recipe.model.build(), images).values
    after = run.evaluation["metrics"]
    if as_json:
        print(json.dumps({"run": str(run.folder), "untrained": {k: before[k] for k in SHOWN}, "trained": after}))
        return
    test = images.split("test")
    classes = len(set(test.labels.tolist()))
    print(
        f"\n{len(test):,} pictures of {classes} unseen characters: is the nearest other picture the same character?\n"
    )
    print(table(["metric", "untrained", "trained"], [(name, before[name], after[name]) for name in SHOWN]))
    print("\nA query, and its nearest pictures (· marks a wrong one):\n")
    print(strips(load_model(str(run.folder)), test, run.recipe.seed))
    print(f"\nThe run is in {run.folder}. Next:")
    print(f"  holdfast audit {run.folder} --data glyphs --limit 200    how easily is it fooled?")
    print("  holdfast train pocket --data folder:YOUR_PHOTOS")


def strips(model: Embedder, test: ImageTable, seed: int) -> str:
    """A few queries with the characters of their nearest neighbours."""
    vectors = embed(model, ImageStore(test, model.canvas, torch.device("cpu")))
    chosen = torch.randperm(len(test), generator=seeds.generator(seed, "strips"))[:QUERIES]
    _, nearest = metrics.neighbours(vectors[chosen], vectors, MATCHES + 1)
    lines = []
    for query, found in zip(chosen.tolist(), nearest.tolist(), strict=True):
        others = [row for row in found if row != query][:MATCHES]
        right = test.labels[others] == test.labels[query]
        marks = [f"{_character(test, row)}{' ' if fine else '·'}" for row, fine in zip(others, right, strict=True)]
        lines.append(f"  {_character(test, query)}  →  {'  '.join(marks)}")
    return "\n".join(lines)


def _character(test: ImageTable, row: int) -> str:
    return test.class_names[int(test.labels[row])]
