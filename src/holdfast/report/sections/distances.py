"""Distances between images of one class and of different classes, before and after the attack."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from holdfast.report import formatting as fmt
from holdfast.report.charts import histogram
from holdfast.report.context import Absent, PageContext, Section, SectionContent

if TYPE_CHECKING:
    from torch import Tensor

    from holdfast.attacks import References
    from holdfast.report.model import CollectContext

BINS = 40
LONGEST = 2.0
"""No two unit vectors are farther apart."""
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


def show(context: PageContext) -> SectionContent:
    """Clean and attacked distances on one scale."""
    stored = context.exhibit("distances")
    edges = [float(edge) for edge in stored["edges"]]
    clean, attacked = (
        [_fractions(stored, f"{when}{kind}") for kind in ("positive", "negative")] for when in ("", "attacked_")
    )
    panels = [("Unchanged images", clean), (f"After the attack, {context.strength} per pixel", attacked)]
    known = [(name, pair) for name, pair in panels if all(pair)]
    bins = used_bins(edges, [values for _, pair in known for values in pair])
    top = 1.4 * max(value for _, pair in known for values in pair for value in values)
    order = [fmt.percent(nearer_percent(*pair)) for _, pair in known]
    title = f"Two images of one class are nearer than two of different classes {order[0]} of the time"
    if len(order) > 1:
        title += f"; under attack {order[1]}"
    charts = [
        {
            "title": name,
            "svg": histogram(
                edges[: bins + 1],
                [("same class", "s1", pair[0][:bins]), ("different classes", "s2", pair[1][:bins])],
                top,
                name,
                f"A pair of one class is nearer than a pair of different classes in {often} of cases.",
                "distance (0: the same place, 2: opposite)",
            ),
        }
        for (name, pair), often in zip(known, order, strict=True)
    ]
    return SectionContent(title, {"charts": charts})


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
