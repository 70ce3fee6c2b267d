"""The pairs of classes that are most often taken for each other."""

from __future__ import annotations

from typing import Any

from holdfast.report import formatting as fmt
from holdfast.report.context import CollectContext, PageContext, Section
from holdfast.run_files import block, finite

PAIRS = 12


def collect(context: CollectContext) -> list[dict[str, Any]]:
    """The pairs of classes most often confused at rank 1, over all queries with a positive in the gallery.

    Ordered by how often, then by percent of the class, then by class; the images are the nearest such query and match.
    """
    import torch

    from holdfast.sphere import distance

    subject, searches = context.subject, context.searches
    references, wrong = subject.references, ~searches.right
    rows, found, labels = searches.rows[wrong], searches.found[wrong], searches.labels[wrong]
    if not len(rows):
        return []
    counted = torch.bincount(searches.labels)
    away = distance(references.clean(rows), references.vectors[found])
    pairs, which, times = torch.unique(
        torch.stack([labels, references.labels[found]], 1), dim=0, return_inverse=True, return_counts=True
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
    return {"title": _title(pairs), "pairs": pairs}


def _title(pairs: list[dict[str, Any]]) -> str:
    """The pair that is confused most often, if it is one."""
    times = [finite(pair.get("times")) for pair in pairs]
    if len(pairs) > 1 and times[0] == times[1]:
        return f"No two classes are confused more often than others: {fmt.count(times[0])} times at most"
    a, b = (fmt.short(pairs[0][key], 60) for key in ("a", "b"))
    return f"Most often confused: {a} is taken for {b}"


SECTION = Section("confusions", "Confusions", show, {"confusions": collect}, of_images=True)
