"""Charts as SVG: a plot area that stretches, with labels that do not; lines, histograms and bars."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Sequence

from markupsafe import Markup

from holdfast.report.formatting import with_interval

PERCENT_TICKS = [(float(v), str(v)) for v in (0, 25, 50, 75, 100)]
SIDE = 1000
"""The plot area in its own units, both ways."""


@dataclasses.dataclass(frozen=True)
class Axis:
    """One direction of a chart.

    Args:
        low: value at the start.
        high: value at the end.
        ticks: values that are labelled, with their labels.
        title: what is shown, with its unit.
    """

    low: float
    high: float
    ticks: Sequence[tuple[float, str]] = ()
    title: str = ""

    def place(self, value: float) -> float:
        """Where a value lies, from 0 to 1; beyond the ends at the ends."""
        return min(1.0, max(0.0, (value - self.low) / (self.high - self.low)))


@dataclasses.dataclass(frozen=True)
class Label:
    """Words inside the plot area.

    Args:
        text: the words.
        x: from 0 (left) to 1.
        y: from 0 (bottom) to 1.
        kind: further CSS classes.
    """

    text: str
    x: float
    y: float
    kind: str = ""


def round_axis(low: float, high: float, title: str = "", ticks: int = 4) -> Axis:
    """An axis over a range with round numbers as ticks."""
    if high <= low:
        low, high = low - 0.5, high + 0.5
    raw = (high - low) / ticks
    power = 10.0 ** math.floor(math.log10(raw))
    step = next(step for step in (power, 2 * power, 2.5 * power, 5 * power, 10 * power) if step >= raw * 0.999)
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    digits = max(0, -math.floor(math.log10(step) + 1e-9)) + (1 if f"{step / power:.1f}" == "2.5" and step < 10 else 0)
    values = [n * step for n in range(first, last + 1)]
    return Axis(values[0], values[-1], [(v, f"{v:,.{digits}f}") for v in values], title)


def point(x: float, y: float) -> str:
    """Coordinates of a place in the plot area, y upwards."""
    return f"{SIDE * x:.1f} {SIDE * (1 - y):.1f}"


def path(points: Iterable[tuple[float, float]]) -> str:
    """The `d` of a line through points given as fractions of the plot area."""
    return "M" + "L".join(point(x, y) for x, y in points)


def dot(x: float, y: float, kind: str) -> Markup:
    """A round mark that stays round however the plot area stretches: a line without length and with round ends."""
    return Markup('<path class="dot {}" d="M{}h0"/>').format(kind, point(x, y))


def frame(
    marks: Markup, x: Axis, y: Axis, title: str, desc: str, labels: Sequence[Label] = (), height: int = 240
) -> Markup:
    """Marks in a plot area with grid, ticks and labels.

    Args:
        marks: SVG elements in a square of `SIDE` units.
        x: from left to right.
        y: from bottom to top.
        title: the finding, for those who cannot see the chart.
        desc: the figures in words.
        labels: words inside the plot area.
        height: in pixels; the width is that of the page.
    """
    grid = Markup("").join(
        Markup('<path class="grid" d="{}"/>').format(path([(0, y.place(v)), (1, y.place(v))])) for v, _ in y.ticks
    )
    drawn = Markup(
        '<svg viewBox="0 0 {s} {s}" preserveAspectRatio="none" role="img"><title>{title}</title><desc>{desc}</desc>'
        "{grid}{marks}</svg>"
    ).format(s=SIDE, title=title, desc=desc, grid=grid, marks=marks)
    words = [
        *[_word("y", text, f"top:{100 * (1 - y.place(v)):.2f}%") for v, text in y.ticks],
        *[_word("x", text, f"left:{100 * x.place(v):.2f}%") for v, text in x.ticks],
        *[_word(f"label {w.kind}", w.text, f"left:{100 * w.x:.2f}%;top:{100 * (1 - w.y):.2f}%") for w in labels],
    ]
    above = Markup('<div class="axis-title" aria-hidden="true">{}</div>').format(y.title) if y.title else Markup("")
    below = Markup('<div class="axis-title x" aria-hidden="true">{}</div>').format(x.title) if x.title else Markup("")
    area = Markup('<div class="area" style="height:{}px">{}{}</div>').format(height, drawn, Markup("").join(words))
    return Markup('<div class="plot">{}{}{}</div>').format(above, area, below)


def _word(kind: str, text: str, style: str) -> Markup:
    return Markup('<span class="tick {}" style="{}" aria-hidden="true">{}</span>').format(kind, style, text)


def legend(entries: Sequence[tuple[str, str]]) -> Markup:
    """What the lines mean: (CSS class of the series, words) each."""
    items = [
        Markup(
            '<li><svg class="key" viewBox="0 0 28 10" aria-hidden="true"><path class="line {}" d="M1 5h26"/></svg>'
            "{}</li>"
        ).format(kind, text)
        for kind, text in entries
    ]
    return Markup('<ul class="legend">{}</ul>').format(Markup("").join(items))


@dataclasses.dataclass(frozen=True)
class Series:
    """One line.

    Args:
        name: what it shows.
        points: (x, y), in order of x.
        kind: CSS class of its colour and dashes, `s1` to `s7`.
        dots: mark the points themselves.
    """

    name: str
    points: Sequence[tuple[float, float]]
    kind: str = "s1"
    dots: bool = False


def line_chart(
    series: Sequence[Series], x: Axis, y: Axis, title: str, desc: str, labels: Sequence[Label] = (), height: int = 240
) -> Markup:
    """Lines, with a legend where there are several.

    Args:
        series: at least one.
        x: from left to right.
        y: from bottom to top.
        title: the finding, for those who cannot see the chart.
        desc: the figures in words.
        labels: words beside points.
        height: in pixels.
    """
    marks = Markup("")
    for line in series:
        places = [(x.place(a), y.place(b)) for a, b in line.points]
        if len(places) > 1:
            marks += Markup('<path class="line {}" d="{}"/>').format(line.kind, path(places))
        if line.dots or len(places) == 1:
            marks += Markup("").join(dot(a, b, line.kind) for a, b in places)
    keys = legend([(line.kind, line.name) for line in series]) if len(series) > 1 else Markup("")
    return keys + frame(marks, x, y, title, desc, labels, height)


Distribution = tuple[str, str, Sequence[float]]


def histogram(
    edges: Sequence[float],
    lines: Sequence[Distribution],
    top: float,
    title: str,
    desc: str,
    x_title: str,
    height: int = 170,
) -> Markup:
    """Outlines of distributions, each named at its peak.

    Args:
        edges: of the bins, one more than there are bins.
        lines: (name, CSS class, fraction of each bin) for each distribution.
        top: the fraction at the upper end, so that several charts compare.
        title: the finding, for those who cannot see the chart.
        desc: the figures in words.
        x_title: what the bins are of.
        height: in pixels.
    """
    x = Axis(edges[0], edges[-1], [(v, f"{v:g}") for v in (0, 0.5, 1, 1.5, 2) if edges[0] <= v <= edges[-1]], x_title)
    y = Axis(0, top, [(0, "")])
    marks = Markup("")
    for _, kind, values in lines:
        outline = [(x.place(edges[0]), 0.0)]
        for left, right, value in zip(edges, edges[1:], values, strict=False):
            outline += [(x.place(left), y.place(value)), (x.place(right), y.place(value))]
        outline.append((x.place(edges[-1]), 0.0))
        marks += Markup('<path class="shade {}" d="{}Z"/>').format(kind, path(outline))
    return frame(marks, x, y, title, desc, _peaks(lines, edges, x, y), height)


def _peaks(lines: Sequence[Distribution], edges: Sequence[float], x: Axis, y: Axis) -> list[Label]:
    """A name at each peak, written away from the peak to its left and lifted where two would meet."""
    peaks = sorted((max(range(len(values)), key=values.__getitem__), n) for n, (_, _, values) in enumerate(lines))
    labels: list[Label] = []
    for peak, n in peaks:
        name, kind, values = lines[n]
        where, height = x.place((edges[peak] + edges[peak + 1]) / 2), y.place(values[peak])
        if any(abs(label.x - where) < 0.4 and abs(label.y - height) < 0.16 for label in labels):
            height = max(label.y for label in labels) + 0.16
        side = "end" if where > 0.75 else "start" if labels else ""
        labels.append(Label(name, where, height, f"{kind} {side}".strip()))
    return labels


def meter(value: float, interval: tuple[float, float] | None, what: str, kind: str = "meter") -> Markup:
    """A value on a rail.

    Args:
        value: from 0 to 100; beyond, drawn at the end.
        interval: of the value, drawn across the bar.
        what: is measured, for those who cannot see it.
        kind: CSS class: `meter` in a tile, `bar` in a list.
    """
    marks = Markup('<rect class="rail" width="100%" height="100%" rx="4"/>')
    marks += Markup('<rect class="fill" width="{:.2f}%" height="100%" rx="4"/>').format(_clip(value))
    if interval is not None and kind == "bar":
        low, high = (_clip(end) for end in interval)
        marks += Markup('<line class="whisker" x1="{:.2f}%" x2="{:.2f}%" y1="50%" y2="50%"/>').format(low, high)
        for end in (low, high):
            marks += Markup('<line class="whisker" x1="{0:.2f}%" x2="{0:.2f}%" y1="22%" y2="78%"/>').format(end)
    title = f"{what}: {with_interval(value, interval)} of 100"
    return Markup('<svg class="{}" role="img"><title>{}</title>{}</svg>').format(kind, title, marks)


def _clip(value: float) -> float:
    return min(100.0, max(0.0, value))
