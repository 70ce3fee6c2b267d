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
    for _, kind, values in shares:
        outline = [(x.place(edges[0]), 0.0)]
        for left, right, value in zip(edges, edges[1:], values, strict=False):
            outline += [(x.place(left), y.place(value)), (x.place(right), y.place(value))]
        outline.append((x.place(edges[-1]), 0.0))
        marks += Markup('<path class="shade {}" d="{}Z"/>').format(kind, path(outline))
    return frame(marks, x, y, title, desc, _names(shares, edges, x, y), height)


def _names(shares: Sequence[tuple[str, str, Sequence[float]]], edges: Sequence[float], x: Axis, y: Axis) -> list[Label]:
    """A name at each peak, written away from the peak to its left and lifted where two would meet."""
    peaks = sorted((max(range(len(values)), key=values.__getitem__), n) for n, (_, _, values) in enumerate(shares))
    labels: list[Label] = []
    for peak, n in peaks:
        name, kind, values = shares[n]
        where, height = x.place((edges[peak] + edges[peak + 1]) / 2), y.place(values[peak])
        if any(abs(label.x - where) < 0.4 and abs(label.y - height) < 0.16 for label in labels):
            height = max(label.y for label in labels) + 0.16
        side = "end" if where > 0.75 else "start" if labels else ""
        labels.append(Label(name, where, height, f"{kind} {side}".strip()))
    return labels
