"""Which classes are taken for which."""

from __future__ import annotations

from typing import Any

import torch

from holdfast.exhibits.missing import Missing
from holdfast.exhibits.scene import Scene
from holdfast.sphere import distance

PAIRS = 12


def confusions(scene: Scene) -> list[dict[str, Any]]:
    """The pairs of classes most often confused at rank 1, over all queries that have something to find.

    Ordered by how often, then by share of the class, then by class; the pictures are the nearest such query and match.
    """
    subject = scene.subject
    references, labels = subject.references, subject.labels
    rows = torch.arange(len(labels), device=labels.device)
    hits = references.hits(references.clean(rows), rows)
    rows = rows[~hits.isnan()]
    if not len(rows):
        raise Missing("no query has another image of its class to find")
    counted = torch.bincount(labels[rows])
    rows = rows[hits[rows] == 0]
    if not len(rows):
        return []
    found = references.nearest(references.clean(rows), rows, 1)[:, 0]
    away = distance(references.clean(rows), references.vectors[found])
    pairs, which, times = torch.unique(
        torch.stack([labels[rows], references.labels[found]], 1), dim=0, return_inverse=True, return_counts=True
    )
    shares = 100 * times.double() / counted[pairs[:, 0]]
    order = sorted(range(len(pairs)), key=lambda i: (-int(times[i]), -float(shares[i])))
    shown = []
    for pair in order[:PAIRS]:
        nearest = int(away.masked_fill(which != pair, torch.inf).argmin())
        a, b = (scene.name_of(label) for label in pairs[pair])
        shown.append(
            {
                "a": a,
                "b": b,
                "times": int(times[pair]),
                "share": float(shares[pair]),
                "pictures": [
                    scene.pictures.of(subject.store, int(rows[nearest]), a),
                    scene.pictures.of(scene.searched, int(found[nearest]), b),
                ],
            }
        )
    return shown
