"""The charts of a comparison: accuracy against robustness against cost, R@1 against eps, learning curves."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence

from holdfast.report.charts import PERCENT_TICKS, Axis, Chart, Label, Mark, Points, line_chart, round_axis
from holdfast.report.formatting import count, duration, eps, number
from holdfast.report.runs import ComparedRun
from holdfast.report.sections.curves import validation
from holdfast.report.sections.eps_curve import STORED, curve, thorough_curve
from holdfast.report.tables import Column, Table
from holdfast.run_files import block

MOST_EPOCHS = 1_000_000
"""More are a mistake in the log."""
SMALLEST, LARGEST = 24.0, 64.0
"""Diameters in pixels; the smallest still holds its letter."""
CROWD, LARGEST_IN_CROWD = 8, 36.0
"""From so many discs on they are drawn smaller, or they would cover each other."""
SHAPE = (820.0, 400.0)
"""Width and height at which labels are kept apart; a narrow screen hides the names and keeps the letters."""
LETTER = 8.8
"""Width of a letter of a label, in pixels."""
SIDES = {"right": (1, 0), "left": (-1, 0), "above": (0, 1), "below": (0, -1)}
"""Where a name may stand, as steps from its disc to the right and up."""


@dataclasses.dataclass(frozen=True)
class Disc:
    """One run.

    Args:
        name: of the run.
        letter: stands in the disc.
        kind: CSS class of its colour.
        x: what it withstands.
        y: R@1.
        cost: what its area shows; None where unknown.
        x_interval: of that.
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


def tradeoff(runs: Sequence[ComparedRun], table: Table, robust: Column, ranked: bool) -> Chart | None:
    """R@1 upwards against robustness to the right, cost as area, of the runs that have both and can be trusted.

    None where there is no such run; both lie from 0 to 100, as they must.

    Args:
        runs: in the order of the table's rows.
        table: their figures.
        robust: robust R@1 or ERS.
        ranked: draw a dashed line through the runs that no other beats in both; only where all were measured alike.
    """
    discs = []
    figures = (column.cells for column in (robust, table.column("R@1"), table.column("seconds")))
    for run, held, recall, cost in zip(runs, *figures, strict=True):
        robustness, accuracy = _percent(held.value), _percent(recall.value)
        if robustness is not None and accuracy is not None and not held.doubted:
            ends = _percents(held.interval), _percents(recall.interval)
            discs.append(Disc(run.name, run.letter, run.kind, robustness, accuracy, cost.value, *ends))
    if not discs:
        return None
    x = _axis([d.x for d in discs], [d.x_interval for d in discs], f"robustness: {robust.key} (0 is defenceless)")
    y = _axis([d.y for d in discs], [d.y_interval for d in discs], "accuracy: R@1 on clean images, %")
    sizes = diameters([d.cost for d in discs])
    front = unbeaten(discs) if ranked else []
    marks = [Mark("front", [(d.x, d.y) for d in front])] if len(front) > 1 else []
    for disc, size in sorted(zip(discs, sizes, strict=True), key=lambda entry: -entry[1]):
        marks.append(Mark(f"disc {disc.kind}", [(disc.x, disc.y)], "h0", size))
        whiskers = [(v, disc.y) for v in disc.x_interval or ()], [(disc.x, v) for v in disc.y_interval or ()]
        marks += [Mark(f"whisker {disc.kind}", ends) for ends in whiskers if ends]
    letters = [Label(d.letter, x.place(d.x), y.place(d.y), "letter") for d in discs]
    name = robust.key
    desc = "; ".join(f"{d.name}: R@1 {number(d.y)}, {name} {number(d.x)}, trained in {duration(d.cost)}" for d in discs)
    title = f"R@1 against {name}, a disc per run"
    return Chart(x, y, title, desc, marks, [*letters, *_names(discs, sizes, x, y)], int(SHAPE[1]))


def _percent(value: float | None) -> float | None:
    """The number if it can be a percentage: one far outside would stretch a chart until nothing is seen of the rest."""
    return value if value is not None and 0 <= value <= 100 else None


def _percents(ends: tuple[float, float] | None) -> tuple[float, float] | None:
    return ends if ends is not None and all(_percent(end) is not None for end in ends) else None


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
    axis = round_axis(max(0.0, low - room), min(100.0, high + room), title, 5)
    # A disc at nothing would lie on the labels beside the plot area.
    return dataclasses.replace(axis, low=-0.06 * axis.high) if axis.low == 0 and low < room else axis


def _names(discs: Sequence[Disc], sizes: Sequence[float], x: Axis, y: Axis) -> list[Label]:
    """Names beside the discs, each on the first side where it covers nothing, none where no side is free."""
    width, height = SHAPE
    centres = [(width * x.place(d.x), height * y.place(d.y)) for d in discs]
    taken = [_box(*centre, size / 2, size / 2) for centre, size in zip(centres, sizes, strict=True)]
    for disc, (_, py) in zip(discs, centres, strict=True):
        if disc.x_interval:
            low, high = (width * x.place(end) for end in disc.x_interval)
            taken.append((low, py - 3, high, py + 3))
    labels = []
    for disc, size, (px, py) in zip(discs, sizes, centres, strict=True):
        half = LETTER * min(len(disc.name), 28) / 2
        away = size / 2 + 6
        for side, (right, up) in SIDES.items():
            box = _box(px + right * (away + half), py + up * (away + 8), half, 8)
            if _inside(box) and not any(_touch(box, other) for other in taken):
                taken.append(box)
                place = (x.place(disc.x) + right * away / width, y.place(disc.y) + up * away / height)
                labels.append(Label(disc.name, *place, f"name {side} {disc.kind}"))
                break
    return labels


Box = tuple[float, float, float, float]


def _box(x: float, y: float, half_width: float, half_height: float) -> Box:
    return x - half_width, y - half_height, x + half_width, y + half_height


def _touch(a: Box, b: Box) -> bool:
    return a[0] < b[2] and b[0] < a[2] and a[1] < b[3] and b[1] < a[3]


def _inside(box: Box) -> bool:
    return box[0] >= 0 and box[1] >= 0 and box[2] <= SHAPE[0] + 12 and box[3] <= SHAPE[1] + 8


def eps_curves(runs: Sequence[ComparedRun]) -> tuple[Chart, str] | None:
    """R@1 against eps of all runs that measured the same attack, and which attack; None where they did not.

    Those of the thorough audit where two runs have it, otherwise those of the exhibits.
    """
    thorough = {run.number: found for run in runs if (found := _thorough(run))}
    source = thorough if len(thorough) > 1 else {run.number: found for run in runs if (found := _exhibit(run))}
    attacks = {attack for attack, _ in source.values()}
    if len(attacks) != 1:
        return None
    lines = [(runs[i].name, points) for i, (_, points) in source.items()]
    every = sorted({x for _, points in lines for x, _ in points})
    ticks = [(x, "0" if x == 0 else eps(x)) for x in every if x == 0 or x >= every[-1] / 4.1]
    across = Axis(0.0, every[-1] or 1.0, ticks, "eps: largest change of a pixel")
    upwards = Axis(0.0, 100.0, PERCENT_TICKS, "R@1 under attack, %")
    words = "; ".join(f"{name}: " + ", ".join(number(y) for _, y in points) for name, points in lines)
    kinds = [runs[i].kind for i in source]
    chart = line_chart(lines, across, upwards, _strength_title(lines), words, dots=True, kinds=kinds)
    return chart, attacks.pop()


def _thorough(run: ComparedRun) -> tuple[str, Points] | None:
    audit = run.audits.get("thorough", {})
    points = thorough_curve(audit)
    return (f"the worst of many attacks on {count(audit.get('images'))} images", points) if points else None


def _exhibit(run: ComparedRun) -> tuple[str, Points] | None:
    stored = block(run.files.exhibits, STORED)
    points = curve(stored)
    what = f"the goal {stored.get('goal')}, {stored.get('steps')} steps, on {count(stored.get('images'))} images"
    return (what, points) if points else None


def _strength_title(lines: Sequence[tuple[str, Points]]) -> str:
    """What is left at the eps where the runs differ most."""
    common = set.intersection(*[{x for x, _ in points if x > 0} for _, points in lines])
    if not common or not 1 < len(lines) < 5:
        return "How fast retrieval falls as the change grows"
    left = {x: sorted(((dict(points)[x], name) for name, points in lines), reverse=True) for x in common}
    at = max(common, key=lambda x: left[x][0][0] - left[x][-1][0])
    (most, first), *rest = left[at]
    if number(most) == number(rest[-1][0]):
        return f"From {eps(min(common))} per pixel on, attacks leave all runs the same R@1"
    others = "".join(f", {name} {number(value)}" for value, name in rest)
    return f"They differ most at {eps(at)} per pixel: {first} keeps an R@1 of {number(most)}{others}"


def learning_curves(runs: Sequence[ComparedRun]) -> Chart | None:
    """R@1 on the validation classes while training, as finely as a chart shows; None where no run was validated twice.

    Epochs and percentages that cannot be are left out.
    """
    lines, kinds = [], []
    for run in runs:
        known = validation(run.files.log)
        points = [(x, round(y, 3)) for x, y in known if 0 <= x <= MOST_EPOCHS and _percent(y) is not None]
        if len(points) > 1:
            lines.append((run.name, points))
            kinds.append(run.kind)
    if not lines:
        return None
    epochs, values = zip(*[point for _, points in lines for point in points], strict=True)
    across = round_axis(0, max(*epochs, 1.0), "epochs", 6)
    upwards = round_axis(min(values), max(values), "R@1 on the validation classes, %")
    ends = "; ".join(f"{name} ends at {number(points[-1][1])}" for name, points in lines)
    return line_chart(lines, across, upwards, "R@1 on the validation classes by epoch", ends, kinds=kinds)
