"""Accuracy against robustness against cost: one disc per run."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence

from markupsafe import Markup

from holdfast.report.charts import Axis, Label, frame, path, point, round_axis

SMALLEST, LARGEST = 24.0, 64.0
"""Diameters in pixels; the smallest still holds its letter."""
CROWD, LARGEST_IN_CROWD = 8, 36.0
"""From so many discs on they are drawn smaller, or they would cover each other."""
SHAPE = (820.0, 400.0)
"""Width and height at which labels are kept apart; a narrow screen hides the names and keeps the letters."""
LETTER = 8.8
"""Width of a letter of a label, in pixels."""


@dataclasses.dataclass(frozen=True)
class Disc:
    """One run.

    Args:
        name: of the run.
        letter: stands in the disc.
        kind: CSS class of its colour.
        x: ERS.
        y: R@1.
        cost: what its area shows; None where unknown.
        x_interval: of ERS.
        y_interval: of R@1.
    """

    name: str
    letter: str
    kind: str
    x: float
    y: float
    cost: float | None = None
    x_interval: tuple[float, float] | None = None
    y_interval: tuple[float, float] | None = None


def tradeoff_chart(discs: Sequence[Disc], title: str, desc: str, ranked: bool) -> Markup:
    """R@1 upwards against ERS to the right, cost as area.

    Args:
        discs: at least one.
        title: the finding, for those who cannot see the chart.
        desc: the figures in words.
        ranked: draw a dashed line through the runs that no other beats in both; only where all were measured alike.
    """
    x = _axis([d.x for d in discs], [d.x_interval for d in discs], "robustness: ERS (0 is defenceless)")
    y = _axis([d.y for d in discs], [d.y_interval for d in discs], "accuracy: R@1 on clean images, %")
    sizes = diameters([d.cost for d in discs])
    marks = Markup("")
    front = unbeaten(discs) if ranked else []
    if len(front) > 1:
        line = path([(x.place(d.x), y.place(d.y)) for d in front])
        marks += Markup('<path class="front" d="{}"/>').format(line)
    for disc, size in sorted(zip(discs, sizes, strict=True), key=lambda entry: -entry[1]):
        place = point(x.place(disc.x), y.place(disc.y))
        marks += Markup('<path class="disc {}" style="stroke-width:{:.0f}px" d="M{}h0"/>').format(
            disc.kind, size, place
        )
        if disc.x_interval:
            ends = [(x.place(v), y.place(disc.y)) for v in disc.x_interval]
            marks += Markup('<path class="whisker {}" d="{}"/>').format(disc.kind, path(ends))
        if disc.y_interval:
            ends = [(x.place(disc.x), y.place(v)) for v in disc.y_interval]
            marks += Markup('<path class="whisker {}" d="{}"/>').format(disc.kind, path(ends))
    letters = [Label(d.letter, x.place(d.x), y.place(d.y), "letter") for d in discs]
    return frame(marks, x, y, title, desc, [*letters, *_names(discs, sizes, x, y)], int(SHAPE[1]))


def diameters(costs: Sequence[float | None]) -> list[float]:
    """Pixels for each cost, areas in proportion; a cheap run is not drawn below the size of its letter."""
    known = [cost for cost in costs if cost is not None and cost > 0]
    if len(known) < len(costs):
        return [SMALLEST] * len(costs)
    most, largest = max(known, default=1.0), LARGEST if len(costs) < CROWD else LARGEST_IN_CROWD
    return [max(SMALLEST, largest * math.sqrt(cost / most)) for cost in known]


def unbeaten(discs: Sequence[Disc]) -> list[Disc]:
    """The runs that no other run beats in both directions, from left to right."""
    kept = [d for d in discs if not any(o.x >= d.x and o.y >= d.y and (o.x > d.x or o.y > d.y) for o in discs)]
    return sorted(kept, key=lambda d: (d.x, -d.y))


def _axis(values: Sequence[float], intervals: Sequence[tuple[float, float] | None], title: str) -> Axis:
    """Room for discs on both sides, within what a percentage can be."""
    all_values = [*values, *[end for interval in intervals if interval for end in interval]]
    low, high = min(all_values), max(all_values)
    room = max(3.0, 0.15 * (high - low))
    return round_axis(max(0.0, low - room), min(100.0, high + room), title, 5)


def _names(discs: Sequence[Disc], sizes: Sequence[float], x: Axis, y: Axis) -> list[Label]:
    """Names beside the discs, each on the first side where it covers nothing, none where no side is free."""
    width, height = SHAPE
    taken = [
        _box(width * x.place(d.x), height * y.place(d.y), size / 2, size / 2)
        for d, size in zip(discs, sizes, strict=True)
    ]
    taken += [_whisker(d, x, y) for d in discs if d.x_interval]
    labels = []
    for disc, size in zip(discs, sizes, strict=True):
        px, py = width * x.place(disc.x), height * y.place(disc.y)
        half = LETTER * min(len(disc.name), 28) / 2
        away = size / 2 + 6
        sides = {
            "right": (px + away + half, py),
            "left": (px - away - half, py),
            "above": (px, py + away + 8),
            "below": (px, py - away - 8),
        }
        boxes = {side: _box(*centre, half, 8) for side, centre in sides.items()}
        free = [s for s, b in boxes.items() if _inside(b) and not any(_touch(b, other) for other in taken)]
        if not free:
            continue
        side = free[0]
        taken.append(boxes[side])
        gap = {"right": (away, 0.0), "left": (-away, 0.0), "above": (0.0, away), "below": (0.0, -away)}[side]
        place = (x.place(disc.x) + gap[0] / width, y.place(disc.y) + gap[1] / height)
        labels.append(Label(disc.name, *place, f"name {side} {disc.kind}"))
    return labels


Box = tuple[float, float, float, float]


def _box(x: float, y: float, half_width: float, half_height: float) -> Box:
    return x - half_width, y - half_height, x + half_width, y + half_height


def _whisker(disc: Disc, x: Axis, y: Axis) -> Box:
    """Where the interval of ERS is drawn."""
    low, high = disc.x_interval or (disc.x, disc.x)
    height = SHAPE[1] * y.place(disc.y)
    return SHAPE[0] * x.place(low), height - 3, SHAPE[0] * x.place(high), height + 3


def _touch(a: Box, b: Box) -> bool:
    return a[0] < b[2] and b[0] < a[2] and a[1] < b[3] and b[1] < a[3]


def _inside(box: Box) -> bool:
    return box[0] >= 0 and box[1] >= 0 and box[2] <= SHAPE[0] + 12 and box[3] <= SHAPE[1] + 8
