"""The data card: how many images of what, and a look at some of them."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from holdfast.audit.sampling import few_classes
from holdfast.data.table import SPLITS, ImageTable
from holdfast.exhibits.scene import Scene

CLASSES, EACH = 12, 4


def data_card(scene: Scene) -> dict[str, Any]:
    """Counts of the whole dataset, and pictures of a few classes of the evaluated split, drawn by seed."""
    table = scene.table
    counts = np.unique(table.labels, return_counts=True)[1]
    return {
        "name": table.name,
        "images": len(table),
        "classes": len(counts),
        "per_class": {"least": int(counts.min()), "median": float(np.median(counts)), "most": int(counts.max())},
        "splits": {split: _size(table.split(split)) for split in SPLITS if table.has(split)},
        "samples": _samples(scene),
    }


def _size(part: ImageTable) -> dict[str, int]:
    return {"images": len(part), "classes": len(np.unique(part.labels))}


def _samples(scene: Scene) -> list[dict[str, Any]]:
    labels = scene.store.table.labels
    by_class: dict[int, list[int]] = {}
    for row in few_classes(torch.tensor(labels), CLASSES, EACH, scene.seed).tolist():
        by_class.setdefault(int(labels[row]), []).append(row)
    return [
        {"label": name, "pictures": [scene.pictures.of(scene.store, row, name) for row in rows]}
        for name, rows in ((scene.name_of(label), rows) for label, rows in by_class.items())
    ]
