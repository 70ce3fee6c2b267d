"""How much of retrieval is left as attacks grow stronger."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

from holdfast.report import figures
from holdfast.report.charts.frame import Axis, Label
from holdfast.report.charts.lines import Series, line_chart
from holdfast.report.found import Found
from holdfast.report.sections.base import Section, Source
from holdfast.report.sections.recipe import block

Points = list[tuple[float, float]]


def after_attack(found: Found) -> tuple[float, float] | None:
    """R@1 under attack and its radius: of the curve at the audit's radius, or of the audit's own ES:R."""
    wanted = figures.finite(block(found.audit, "budget").get("eps_pixel")) or 8 / 255
    for eps, recall in curve(found.exhibits.get("radius")):
        if abs(eps - wanted) < 1e-6:
            return recall, eps
    moved = figures.finite(block(found.audit, "metrics").get("ES:R"))
    return None if moved is None else (moved, wanted)


def curve(radius: Any) -> Points:
    """(ε, R@1) of the exhibit, in order of ε."""
    if not isinstance(radius, dict):
        return []
    pairs = zip(radius.get("eps_pixel") or (), radius.get("R@1") or (), strict=False)
    known = [(figures.finite(a), figures.finite(b)) for a, b in pairs]
    return sorted((a, b) for a, b in known if a is not None and b is not None)


def radius(source: Source) -> Section:
    """The curve, and that of a thorough audit where there is one."""
    block = source.exhibit("radius")
    points = curve(block)
    if not points:
        raise ValueError("a curve without points")
    series = [Series("one attack", points, "s1", dots=True)]
    worst = _thorough(source.found)
    if worst:
        series.append(Series("worst of many attacks (thorough audit)", worst, "s2", dots=True))
    every = sorted({eps for line in series for eps, _ in line.points})
    ticks = [(doublings(eps), f"{255 * eps:.3g}") for eps in _apart(every)]
    x = Axis(0, doublings(every[-1]) or 1.0, ticks, "largest change of a pixel, of its 255 levels")
    series = [dataclasses.replace(line, points=[(doublings(a), b) for a, b in line.points]) for line in series]
    y = Axis(0, 100, [(v, str(v)) for v in (0, 25, 50, 75, 100)], "R@1, percent")
    labels = [
        Label(figures.number(recall), x.place(doublings(eps)), y.place(recall), "end" if eps == every[-1] else "start")
        for eps, recall in points
    ]
    title = _title(points, source.found)
    desc = "; ".join(f"{figures.eps(eps)}: {figures.percent(recall)}" for eps, recall in points)
    return Section(
        title,
        {
            "svg": line_chart(series, x, y, title, desc, labels, height=300),
            "images": figures.count(block.get("images")),
            "steps": block.get("steps"),
            "rows": [(figures.eps(eps), figures.percent(recall)) for eps, recall in points],
        },
    )


def _title(points: Points, found: Found) -> str:
    after = after_attack(found)
    clean = points[0][1]
    if after is None or points[0][0] > 0:
        eps, recall = points[-1]
        return f"At {figures.eps(eps)} per pixel, {figures.percent(recall)} of the searches still succeed"
    return (
        f"R@1 falls from {figures.percent(clean)} to {figures.percent(after[0])} at {figures.eps(after[1])} per pixel"
    )


def _thorough(found: Found) -> Points:
    for audit in found.audits.values():
        if audit.get("protocol") == "thorough":
            rows = [row for row in audit.get("curve") or () if isinstance(row, dict)]
            return curve({"eps_pixel": [r.get("eps") for r in rows], "R@1": [r.get("R@1") for r in rows]})
    return []


def doublings(eps: float) -> float:
    """Where a radius lies on an axis on which it doubles at every step, and that begins at none: log2(1 + 255 ε)."""
    return math.log2(1 + 255 * eps)


def _apart(values: list[float]) -> list[float]:
    """Those values that leave room for a label between them, from the largest down."""
    kept = [values[-1]]
    for value in reversed(values[:-1]):
        if doublings(kept[-1]) - doublings(value) >= 0.09 * doublings(values[-1]):
            kept.append(value)
    return kept
