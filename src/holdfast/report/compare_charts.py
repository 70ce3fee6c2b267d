"""The charts of a comparison, each with the sentence that says what it shows."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from holdfast.report.charts import PERCENT_TICKS, Axis, Chart, Series, line_chart, round_axis
from holdfast.report.formatting import count, duration, eps, number
from holdfast.report.runs import ComparedRun
from holdfast.report.sections.eps_curve import STORED, Points, curve, thorough_curve
from holdfast.report.tables import Table, TableCell
from holdfast.report.tradeoff import Disc, tradeoff_chart
from holdfast.run_files import block, finite

MOST_EPOCHS = 1_000_000
"""More are a mistake in the log."""


def cell(table: Table, row: int, key: str) -> TableCell:
    """A cell by the key of its column; empty where no run has the column."""
    index = next((i for i, column in enumerate(table.columns) if column.key == key), None)
    return TableCell() if index is None else table.rows[row].cells[index]


def tradeoff(runs: Sequence[ComparedRun], table: Table, ranked: bool) -> Chart | None:
    """R@1 against ERS; None where no run has both, from 0 to 100 as they must be.

    Args:
        runs: in the order of the table's rows.
        table: their figures.
        ranked: whether the runs were measured alike.
    """
    discs = []
    for i, run in enumerate(runs):
        accuracy, robustness = cell(table, i, "R@1"), cell(table, i, "ERS")
        x, y = _percent(robustness.value), _percent(accuracy.value)
        if x is None or y is None:
            continue
        seconds = cell(table, i, "seconds").value
        ends = (_percents(robustness.interval), _percents(accuracy.interval))
        discs.append(Disc(run.name, run.letter, run.kind, x, y, seconds, *ends))
    if not discs:
        return None
    words = "; ".join(f"{d.name}: R@1 {number(d.y)}, ERS {number(d.x)}, trained in {duration(d.cost)}" for d in discs)
    return tradeoff_chart(discs, "R@1 against ERS, a disc per run", words, ranked)


@dataclasses.dataclass(frozen=True)
class EpsCurves:
    """R@1 against eps, for several runs.

    Args:
        chart: as the page shows it.
        title: the finding.
        attack: what was done to the images.
    """

    chart: Chart
    title: str
    attack: str


def eps_curves(runs: Sequence[ComparedRun]) -> EpsCurves | None:
    """The curves of all runs that measured the same attack; None where they did not.

    Those of the thorough audit where two runs have it, otherwise those of the exhibits.
    """
    thorough = {run.number: found for run in runs if (found := _thorough(run))}
    source = thorough if len(thorough) > 1 else {run.number: found for run in runs if (found := _exhibit(run))}
    attacks = {attack for attack, _ in source.values()}
    if len(attacks) != 1:
        return None
    series = [Series(runs[i].name, points, runs[i].kind, dots=True) for i, (_, points) in source.items()]
    every = sorted({x for line in series for x, _ in line.points})
    ticks = [(x, "0" if x == 0 else eps(x)) for x in every if x == 0 or x >= every[-1] / 4.1]
    across = Axis(0.0, every[-1] or 1.0, ticks, "eps: largest change of a pixel")
    upwards = Axis(0.0, 100.0, PERCENT_TICKS, "R@1 under attack, %")
    title = _strength_title(series)
    words = "; ".join(f"{line.name}: " + ", ".join(number(y) for _, y in line.points) for line in series)
    return EpsCurves(line_chart(series, across, upwards, title, words, height=280), title, attacks.pop())


def _thorough(run: ComparedRun) -> tuple[str, Points] | None:
    audit = run.audits.get("thorough", {})
    points = thorough_curve(audit)
    return (f"the worst of many attacks on {count(audit.get('images'))} images", points) if points else None


def _exhibit(run: ComparedRun) -> tuple[str, Points] | None:
    stored = block(run.files.exhibits, STORED)
    points = curve(stored)
    what = f"the goal {stored.get('goal')}, {stored.get('steps')} steps, on {count(stored.get('images'))} images"
    return (what, points) if points else None


def _strength_title(series: Sequence[Series]) -> str:
    """What is left at the eps where the runs differ most."""
    common = set.intersection(*[{x for x, _ in line.points if x > 0} for line in series])
    if not common or not 1 < len(series) < 5:
        return "How fast retrieval falls as the change grows"
    left = {x: sorted(((dict(line.points)[x], line.name) for line in series), reverse=True) for x in common}
    at = max(common, key=lambda x: left[x][0][0] - left[x][-1][0])
    (most, first), *rest = left[at]
    others = "".join(f", {name} {number(value)}" for value, name in rest)
    return f"They differ most at {eps(at)} per pixel: {first} keeps an R@1 of {number(most)}{others}"


def learning_curves(runs: Sequence[ComparedRun]) -> Chart | None:
    """R@1 on the validation classes while training; None where no run was validated twice."""
    series = []
    for run in runs:
        points = [(line.get("epoch"), block(line, "validation").get("R@1")) for line in run.files.log]
        known = _drawable(points)
        if len(known) > 1:
            series.append(Series(run.name, known, run.kind))
    if not series:
        return None
    last = max(x for line in series for x, _ in line.points)
    values = [y for line in series for _, y in line.points]
    across = round_axis(0, max(last, 1.0), "epochs", 6)
    upwards = round_axis(min(values), max(values), "R@1 on the validation classes, %")
    ends = "; ".join(f"{line.name} ends at {number(line.points[-1][1])}" for line in series)
    return line_chart(series, across, upwards, "R@1 on the validation classes by epoch", ends, height=280)


def _drawable(points: Sequence[tuple[object, object]]) -> list[tuple[float, float]]:
    """Epochs and percentages that a log can hold, as finely as a chart shows them."""
    known = [(finite(a), _percent(b)) for a, b in points]
    return [(x, round(y, 3)) for x, y in known if x is not None and y is not None and 0 <= x <= MOST_EPOCHS]


def _percent(value: object) -> float | None:
    """The number if it can be a percentage: one far outside would stretch a chart until nothing is seen of the rest."""
    known = finite(value)
    return known if known is not None and 0 <= known <= 100 else None


def _percents(ends: tuple[float, float] | None) -> tuple[float, float] | None:
    return ends if ends is not None and all(_percent(end) is not None for end in ends) else None
