"""The pairs of classes that are most often taken for each other."""

from __future__ import annotations

from typing import Any

from holdfast.report import formatting as fmt
from holdfast.report.context import NO_POSITIVE, Absent, CollectContext, PageContext, Section
from holdfast.run_files import block

PAIRS = 12


def collect(context: CollectContext) -> list[dict[str, Any]]:
    """The pairs of classes most often confused at rank 1, over all queries with a positive in the gallery.

    Ordered by how often, then by percent of the class, then by class; the images are the nearest such query and match.
    """
    import torch

    from holdfast.sphere import distance

    subject = context.subject
    references, labels = subject.references, subject.labels
    rows = torch.arange(len(labels), device=labels.device)
    hits = references.hits(references.clean(rows), rows)
    rows = rows[~hits.isnan()]
    if not len(rows):
        raise Absent(NO_POSITIVE)
    counted = torch.bincount(labels[rows])
    rows = rows[hits[rows] == 0]
    if not len(rows):
        return []
    found = references.nearest(references.clean(rows), rows, 1)[:, 0]
    away = distance(references.clean(rows), references.vectors[found])
    pairs, which, times = torch.unique(
        torch.stack([labels[rows], references.labels[found]], 1), dim=0, return_inverse=True, return_counts=True
    )
    percents = 100 * times.double() / counted[pairs[:, 0]]
    order = sorted(range(len(pairs)), key=lambda i: (-int(times[i]), -float(percents[i])))
    shown = []
    for pair in order[:PAIRS]:
        nearest = int(away.masked_fill(which != pair, torch.inf).argmin())
        a, b = (context.name_of(label) for label in pairs[pair])
        images = [
            context.images.of(subject.store, int(rows[nearest]), a),
            context.images.of(context.searched, int(found[nearest]), b),
        ]
        percent = float(percents[pair])
        shown.append({"a": a, "b": b, "times": int(times[pair]), "share": percent, "pictures": images})
    return shown


def show(context: PageContext) -> dict[str, Any]:
    """Each pair with an image of both."""
    exhibits = context.files.exhibits
    if exhibits.get("confusions") == [] and "confusions" not in block(exhibits, "missing"):
        return {"title": "No query found a wrong class first", "pairs": []}
    pairs = []
    for pair in context.exhibit("confusions"):
        images = [context.images.tag(image) for image in pair.get("pictures") or ()]
        pairs.append({**pair, "images": images if len(images) == 2 and all(images) else []})
    a, b = (fmt.short(pairs[0][key], 24) for key in ("a", "b"))
    return {"title": f"Most often confused: {a} is taken for {b}", "pairs": pairs}


SECTION = Section("confusions", "Confusions", show, {"confusions": collect}, of_images=True)
