"""What one of several processes does when they measure, embed and index together."""

from __future__ import annotations

import json
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path
from typing import Any

import torch
from torch.nn.functional import normalize

from holdfast import metrics
from holdfast.cli import main
from holdfast.metrics import EmbeddedSet, base, ranks
from holdfast.metrics.ranks import match_ranks
from holdfast.processes import joined
from meeting import meet

SMALL_BLOCK, NARROW = 2**11, 100
"""Blocks of a few queries, so that there are many of them, ranked in both ways."""


def embedded(case: str) -> dict[str, Any]:
    """Labelled vectors; an odd number, some of which have nothing to find."""
    draw = torch.Generator().manual_seed(3)

    def some(count: int, classes: int) -> tuple[torch.Tensor, torch.Tensor]:
        labels = torch.randint(classes, (count,), generator=draw)
        centres = torch.randn(classes, 6, generator=draw)
        return normalize(centres[labels] + torch.randn(count, 6, generator=draw), dim=1), labels

    vectors, labels = some(211, 20)
    labels[:3] = torch.tensor([90, 91, 92])
    if case == "itself":
        return {"embeddings": vectors, "labels": labels, "coarse": labels // 5}
    if case == "few matches":
        vectors, labels = some(211, 60)
        return {"embeddings": vectors, "labels": labels}
    gallery, gallery_labels = some(131, 20)
    groups = {"groups": torch.arange(211) % 3, "gallery_groups": torch.arange(131) % 3}
    return {"embeddings": vectors, "labels": labels, "gallery": gallery, "gallery_labels": gallery_labels, **groups}


CASES = ("itself", "few matches", "gallery")


def measured(case: str) -> dict[str, Any]:
    """All values, why some are missing, and how many queries were ranked here."""
    data = embedded(case)
    found = metrics.evaluate(**data, seed=4)
    queries = EmbeddedSet.of(**{key: value for key, value in data.items() if key != "coarse"})
    ranked = sum(len(block) for block, _, _ in match_ranks(queries))
    return {"values": found.values, "reasons": found.reasons, "ranked": ranked}


def cut_small() -> None:
    base.BLOCK, ranks.WIDTH = SMALL_BLOCK, NARROW


def one_of_several(rank: int, world: int, port: int, folder: str, commands: list[list[str]]) -> None:
    """Measure every case, run some commands, and write down what was found and printed."""
    meet(rank, world, port)
    cut_small()
    with joined(torch.device("cpu")):
        found = {case: measured(case) for case in CASES}
    printed = []
    for words in commands:
        out = StringIO()
        with redirect_stdout(out):
            printed.append((main(words), out.getvalue()))
    (Path(folder) / f"{rank}.json").write_text(json.dumps({"found": found, "printed": printed}), "utf-8")
