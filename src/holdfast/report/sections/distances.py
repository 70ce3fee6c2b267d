"""Distances between pictures of one class and of different classes."""

from __future__ import annotations

from typing import Any

from holdfast.report import formatting as fmt
from holdfast.report.charts.histogram import histogram
from holdfast.report.sections.base import Section, Source

VISIBLE, TINY = 0.0005, 1e-6


def distances(source: Source) -> Section:
    """Clean and attacked distances on one scale."""
    block = source.exhibit("distances")
    edges = [float(edge) for edge in block["edges"]]
    clean = _shares(block, "positive"), _shares(block, "negative")
    attacked = _shares(block, "attacked_positive"), _shares(block, "attacked_negative")
    panels = [("Unchanged pictures", clean), (f"After the attack, {source.strength} per pixel", attacked)]
    known = [(name, pair) for name, pair in panels if pair[0] and pair[1]]
    bins = used_bins(edges, [values for _, pair in known for values in pair])
    top = 1.4 * max(value for _, pair in known for values in pair for value in values)
    order = [nearer_share(*pair) for _, pair in known]
    title = f"Two pictures of one class are nearer than two of different classes {fmt.percent(order[0])} of the time"
    if len(order) > 1:
        title += f"; under attack {fmt.percent(order[1])}"
    charts = [
        {
            "title": name,
            "svg": histogram(
                edges[: bins + 1],
                [("same class", "s1", pair[0][:bins]), ("different classes", "s2", pair[1][:bins])],
                top,
                name,
                f"A pair of one class is nearer than a pair of different classes in {fmt.percent(share)} of cases.",
                "distance (0: the same place, 2: opposite)",
            ),
        }
        for (name, pair), share in zip(known, order, strict=True)
    ]
    return Section(title, {"charts": charts})


def used_bins(edges: list[float], shares: list[list[float]]) -> int:
    """How many bins a chart needs: up to the last that holds anything to see, and on to the next half unit."""
    last = max(n for values in shares for n, value in enumerate(values) if value > VISIBLE)
    return next((n for n in range(last + 1, len(edges)) if (2 * edges[n]) % 1 < TINY), len(edges) - 1)


def nearer_share(positive: list[float], negative: list[float]) -> float:
    """How often a positive distance is the smaller of two, in percent; within one bin, half the time."""
    total, above = 0.0, sum(negative)
    for near, far in zip(positive, negative, strict=True):
        above -= far
        total += near * (above + far / 2)
    return 100 * total / (sum(positive) * sum(negative))


def _shares(block: dict[str, Any], name: str) -> list[float]:
    values = [float(value) for value in block.get(name) or ()]
    return values if sum(values) > 0 else []
