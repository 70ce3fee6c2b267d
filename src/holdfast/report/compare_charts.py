"""The charts of a comparison, each with the sentence that says what it shows."""

from __future__ import annotations

from collections.abc import Sequence

from holdfast.report.charts import PERCENT_TICKS, Axis, Chart, Series, line_chart, round_axis
from holdfast.report.formatting import count, eps, number
from holdfast.report.runs import ComparedRun
from holdfast.report.sections.curves import validation
from holdfast.report.sections.eps_curve import STORED, Points, curve, thorough_curve
from holdfast.report.tradeoff import percent
from holdfast.run_files import block

MOST_EPOCHS = 1_000_000
"""More are a mistake in the log."""


def eps_curves(runs: Sequence[ComparedRun]) -> tuple[Chart, str] | None:
    """R@1 against eps of all runs that measured the same attack, and which attack; None where they did not.

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
    return line_chart(series, across, upwards, title, words, height=280), attacks.pop()


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
    """R@1 on the validation classes while training, as finely as a chart shows; None where no run was validated twice.

    Epochs and percentages that cannot be are left out.
    """
    series = []
    for run in runs:
        known = validation(run.files.log)
        points = [(x, round(y, 3)) for x, y in known if 0 <= x <= MOST_EPOCHS and percent(y) is not None]
        if len(points) > 1:
            series.append(Series(run.name, points, run.kind))
    if not series:
        return None
    last = max(x for line in series for x, _ in line.points)
    values = [y for line in series for _, y in line.points]
    across = round_axis(0, max(last, 1.0), "epochs", 6)
    upwards = round_axis(min(values), max(values), "R@1 on the validation classes, %")
    ends = "; ".join(f"{line.name} ends at {number(line.points[-1][1])}" for line in series)
    return line_chart(series, across, upwards, "R@1 on the validation classes by epoch", ends, height=280)
