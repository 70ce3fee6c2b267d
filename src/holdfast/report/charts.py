"""Charts as plain values: axes, marks and labels, which the macro `plot` of `charts.html` draws as SVG."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence

PERCENT_TICKS = [(float(v), str(v)) for v in (0, 25, 50, 75, 100)]
KINDS = 7
"""Colours the page has, CSS classes `s1` to `s7`; an eighth line looks like the first."""
Points = Sequence[tuple[float, float]]
SIDE = 1000
"""The plot area in its own units, both ways; on the page it stretches, and labels do not."""


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


@dataclasses.dataclass(frozen=True)
class Mark:
    """A path through points.

    Args:
        kind: CSS classes: what it is, and its colour.
        points: (x, y) as the axes count.
        end: `Z` closes an outline; `h0` makes a dot of one point, round however the plot area stretches: a line without
            length and with round ends.
        width: of the stroke in pixels, where the style sheet does not say.
    """

    kind: str
    points: Points
    end: str = ""
    width: float | None = None


@dataclasses.dataclass(frozen=True)
class Chart:
    """Marks in a plot area with grid, ticks and labels.

    Args:
        x: from left to right.
        y: from bottom to top.
        title: the finding, for those who cannot see the chart.
        desc: the figures in words.
        marks: drawn in this order.
        labels: words inside the plot area.
        height: in pixels; the width is that of the page.
        legend: (CSS class of a line, words) each, if there is one.
    """

    x: Axis
    y: Axis
    title: str
    desc: str
    marks: Sequence[Mark]
    labels: Sequence[Label] = ()
    height: int = 240
    legend: Sequence[tuple[str, str]] = ()

    def path(self, points: Points) -> str:
        """The `d` of a line through points."""
        places = ((self.x.place(a), self.y.place(b)) for a, b in points)
        return "M" + "L".join(f"{SIDE * x:.1f} {SIDE * (1 - y):.1f}" for x, y in places)


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


def line_chart(
    lines: Sequence[tuple[str, Points]],
    x: Axis,
    y: Axis,
    title: str,
    desc: str,
    *,
    dots: bool = False,
    labels: Sequence[Label] = (),
    height: int = 280,
    kinds: Sequence[str] = (),
) -> Chart:
    """Lines, with a legend where there are several, or where colours stand for runs; a line of one point is a dot.

    Args:
        lines: name and points of each, in order of x.
        x: from left to right.
        y: from bottom to top.
        title: the finding, for those who cannot see the chart.
        desc: the figures in words.
        dots: mark the points themselves.
        labels: words beside points.
        height: in pixels.
        kinds: CSS class of the colour and dashes of each; `s1` to `s7` in turn when left out.
    """
    marks, legend = [], []
    for n, (name, points) in enumerate(lines):
        kind = kinds[n] if kinds else f"s{1 + n % KINDS}"
        legend.append((kind, name))
        if len(points) > 1:
            marks.append(Mark(f"line {kind}", points))
        if dots or len(points) == 1:
            marks += [Mark(f"dot {kind}", [point], "h0") for point in points]
    return Chart(x, y, title, desc, marks, labels, height, legend if len(lines) > 1 or kinds else [])
