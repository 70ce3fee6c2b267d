"""What every chart stands in: a plot area that stretches, with labels that do not."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Sequence

from markupsafe import Markup

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
        share = (value - self.low) / (self.high - self.low)
        return min(1.0, max(0.0, share))


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
    """Coordinates of a share of the plot area, y upwards."""
    return f"{SIDE * x:.1f} {SIDE * (1 - y):.1f}"


def path(points: Iterable[tuple[float, float]]) -> str:
    """The `d` of a line through points given as shares of the plot area."""
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
