"""Distances between images of one class and of different classes, before and after the attack."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from holdfast.report import formatting as fmt
from holdfast.report.charts import Axis, Chart, Label, Mark
from holdfast.report.context import Absent, CollectContext, PageContext, Section

if TYPE_CHECKING:
    from torch import Tensor

    from holdfast.attacks import References

BINS = 40
LONGEST = 2.0
"""No two unit vectors are farther apart."""
KINDS = {"s1": "same class", "s2": "different classes"}
VISIBLE, TINY = 0.0005, 1e-6


def collect(context: CollectContext) -> dict[str, Any]:
    """Fractions of distances between the attacked queries and the gallery, the same pairs before and after.

    Attacked queries are taken as 8-bit files hold them; own copies are left out, as in a search.
    """
    import torch

    references, rows = context.subject.references, context.subject.rows
    edges = torch.linspace(0, LONGEST, BINS + 1, dtype=torch.float64)
    positive, negative = histograms(references, references.clean(rows), rows, edges)
    if positive is None or negative is None:
        kind = "one class" if positive is None else "different classes"
        raise Absent(f"there is no pair of images of {kind} to measure")
    attacked = context.subject.differentiable
    after = histograms(references, context.attacked.vectors, rows, edges) if attacked else (None, None)
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
    """Fractions of the distances to gallery items of the same and of other classes; None where there are none."""
    import torch

    from holdfast.sphere import distances

    counts = torch.zeros(2, BINS, dtype=torch.float64)
    edges = edges.to(vectors.device)
    for part in references.parts(rows):
        found = distances(vectors[part], references.vectors).double()
        places = (torch.bucketize(found, edges, right=True) - 1).clamp(0, BINS - 1)
        for kind, mask in enumerate((references.positives(rows[part]), references.negatives(rows[part]))):
            counts[kind] += torch.bincount(places[mask], minlength=BINS).cpu()
    positive, negative = ((each / each.sum()).tolist() if each.sum() else None for each in counts)
    return positive, negative


def show(context: PageContext) -> dict[str, Any]:
    """Clean and attacked distances on one scale."""
    stored = context.exhibit("distances")
    edges = [float(edge) for edge in stored["edges"]]
    clean, attacked = (
        [_fractions(stored, f"{when}{kind}") for kind in ("positive", "negative")] for when in ("", "attacked_")
    )
    panels = {"Unchanged images": clean, f"After the attack, {context.strength} per pixel": attacked}
    known = {name: pair for name, pair in panels.items() if all(pair)}
    bins = used_bins(edges, [values for pair in known.values() for values in pair])
    top = 1.4 * max(value for pair in known.values() for values in pair for value in values)
    nearer = [fmt.percent(nearer_percent(*pair)) for pair in known.values()]
    title = f"Two images of one class are nearer than two of different classes {nearer[0]} of the time"
    if len(nearer) > 1:
        title += f"; under attack {nearer[1]}"
    charts = [
        histogram(name, edges[: bins + 1], [values[:bins] for values in pair], top, often)
        for (name, pair), often in zip(known.items(), nearer, strict=True)
    ]
    return {"title": title, "charts": charts}


def histogram(title: str, edges: list[float], pair: list[list[float]], top: float, nearer: str) -> Chart:
    """Outlines of two distributions, each named at its peak.

    Args:
        title: which images.
        edges: of the bins, one more than there are bins.
        pair: fraction of each bin, of distances within one class and between different ones.
        top: the fraction at the upper end, so that several charts compare.
        nearer: how often the first is the smaller.
    """
    ticks = [(v, f"{v:g}") for v in (0, 0.5, 1, 1.5, 2) if edges[0] <= v <= edges[-1]]
    x, y = Axis(edges[0], edges[-1], ticks, "distance (0: the same place, 2: opposite)"), Axis(0, top, [(0, "")])
    marks = []
    for kind, values in zip(KINDS, pair, strict=True):
        bins = zip(edges, edges[1:], values, strict=False)
        steps = [corner for left, right, value in bins for corner in ((left, value), (right, value))]
        marks.append(Mark(f"shade {kind}", [(edges[0], 0.0), *steps, (edges[-1], 0.0)], "Z"))
    desc = f"A pair of one class is nearer than a pair of different classes in {nearer} of cases."
    return Chart(x, y, title, desc, marks, _peaks(pair, edges, x, y), height=170)


def _peaks(pair: list[list[float]], edges: list[float], x: Axis, y: Axis) -> list[Label]:
    """A name at each peak, written away from the peak to its left and lifted where the two would meet."""
    named = [(values.index(max(values)), kind, values) for kind, values in zip(KINDS, pair, strict=True)]
    labels: list[Label] = []
    for peak, kind, values in sorted(named):
        where, height = x.place((edges[peak] + edges[peak + 1]) / 2), y.place(values[peak])
        if any(abs(label.x - where) < 0.4 and abs(label.y - height) < 0.16 for label in labels):
            height = max(label.y for label in labels) + 0.16
        side = "end" if where > 0.55 else "start" if labels else ""
        labels.append(Label(KINDS[kind], where, height, f"{kind} {side}".strip()))
    return labels


def used_bins(edges: list[float], fractions: list[list[float]]) -> int:
    """How many bins a chart needs: up to the last that holds anything to see, and on to the next half unit."""
    last = max(n for values in fractions for n, value in enumerate(values) if value > VISIBLE)
    return next((n for n in range(last + 1, len(edges)) if (2 * edges[n]) % 1 < TINY), len(edges) - 1)


def nearer_percent(positive: list[float], negative: list[float]) -> float:
    """How often a positive distance is the smaller of two, in percent; within one bin, half the time."""
    total, above = 0.0, sum(negative)
    for pos, neg in zip(positive, negative, strict=True):
        above -= neg
        total += pos * (above + neg / 2)
    return 100 * total / (sum(positive) * sum(negative))


def _fractions(stored: dict[str, Any], name: str) -> list[float]:
    values = [float(value) for value in stored.get(name) or ()]
    return values if sum(values) > 0 else []


SECTION = Section("distances", "Distances", show, {"distances": collect}, of_images=True)
