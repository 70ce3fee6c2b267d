"""How far apart images of one class and of different classes are, before and after the attack."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from holdfast.attacks import References
from holdfast.exhibits.missing import Missing
from holdfast.exhibits.scene import Scene
from holdfast.sphere import distances as all_distances

BINS = 40
LONGEST = 2.0
"""No two unit vectors are farther apart."""


def distances(scene: Scene) -> dict[str, Any]:
    """Shares of distances between the attacked queries and the gallery, the same pairs before and after.

    Attacked queries are taken as 8-bit files hold them; own copies are left out, as in a search.
    """
    references, rows = scene.subject.references, scene.subject.rows
    edges = torch.linspace(0, LONGEST, BINS + 1, dtype=torch.float64)
    positive, negative = histograms(references, references.clean(rows), rows, edges)
    if positive is None or negative is None:
        kind = "one class" if positive is None else "different classes"
        raise Missing(f"there is no pair of images of {kind} to measure")
    attacked = scene.subject.differentiable
    after = histograms(references, scene.attacked.vectors, rows, edges) if attacked else (None, None)
    return {
        "edges": edges.tolist(),
        "positive": positive,
        "negative": negative,
        "attacked_positive": after[0],
        "attacked_negative": after[1],
    }


def histograms(
    references: References, vectors: Tensor, rows: Tensor, edges: Tensor
) -> tuple[list[float] | None, list[float] | None]:
    """Shares of the distances to gallery items of the same and of other classes; None where there are none."""
    counts = torch.zeros(2, BINS, dtype=torch.float64)
    edges = edges.to(vectors.device)
    for part in references.parts(rows):
        found = all_distances(vectors[part], references.vectors).double()
        places = (torch.bucketize(found, edges, right=True) - 1).clamp(0, BINS - 1)
        for kind, mask in enumerate((references.positives(rows[part]), references.negatives(rows[part]))):
            counts[kind] += torch.bincount(places[mask], minlength=BINS).cpu()
    positive, negative = ((each / each.sum()).tolist() if each.sum() else None for each in counts)
    return positive, negative
