"""Lines over a common x."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from markupsafe import Markup

from holdfast.report.charts.frame import Axis, Label, dot, frame, legend, path


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
