"""Two distributions over the same bins."""

from __future__ import annotations

from collections.abc import Sequence

from markupsafe import Markup

from holdfast.report.charts.frame import Axis, Label, frame, path


def histogram(
    edges: Sequence[float],
    shares: Sequence[tuple[str, str, Sequence[float]]],
    top: float,
    title: str,
    desc: str,
    x_title: str,
    height: int = 170,
) -> Markup:
    """Outlines of distributions, each named at its peak.

    Args:
        edges: of the bins, one more than there are bins.
        shares: (name, CSS class, share of each bin) for each distribution.
        top: the share at the upper end, so that several charts compare.
        title: the finding, for those who cannot see the chart.
        desc: the figures in words.
        x_title: what the bins are of.
        height: in pixels.
    """
    x = Axis(edges[0], edges[-1], [(v, f"{v:g}") for v in (0, 0.5, 1, 1.5, 2) if edges[0] <= v <= edges[-1]], x_title)
    y = Axis(0, top, [(0, "")])
    marks = Markup("")
    labels: list[Label] = []
    for name, kind, values in shares:
        outline = [(x.place(edges[0]), 0.0)]
        for left, right, value in zip(edges, edges[1:], values, strict=False):
            outline += [(x.place(left), y.place(value)), (x.place(right), y.place(value))]
        outline.append((x.place(edges[-1]), 0.0))
        marks += Markup('<path class="shade {}" d="{}Z"/>').format(kind, path(outline))
        labels.append(_peak_label(name, kind, edges, values, x, y, labels))
    return frame(marks, x, y, title, desc, labels, height)


def _peak_label(
    name: str, kind: str, edges: Sequence[float], values: Sequence[float], x: Axis, y: Axis, others: list[Label]
) -> Label:
    """At the peak, lifted above a label that is already there."""
    peak = max(range(len(values)), key=lambda n: values[n])
    where = x.place((edges[peak] + edges[peak + 1]) / 2)
    height = y.place(values[peak])
    if any(abs(label.x - where) < 0.28 and abs(label.y - height) < 0.14 for label in others):
        height = max(label.y for label in others) + 0.14
    side = "start" if where < 0.12 else "end" if where > 0.88 else ""
    return Label(name, where, height, f"{kind} {side}".strip())
