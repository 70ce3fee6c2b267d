"""Tables of arms: mean ± standard deviation over seeds."""

from __future__ import annotations

import re
import statistics
from collections.abc import Mapping, Sequence
from typing import TypeAlias

from holdfast_studies.base import Study
from holdfast_studies.cost import device, on_one_device
from holdfast_studies.jobs import Scale
from holdfast_studies.results import BEST_ON_TEST, NOT_RUN, Outcome, Results
from holdfast_studies.setting import setting

Table: TypeAlias = tuple[list[str], list[list[str]]]
"""Headings and rows, all as text."""

PERCENT = re.compile(r"(R@\d+|mAP(@[RC])?|NMI\+?|ERS|[CQ]A[+-]|ES:R|LTM|GTM|GTT)$|(^| )R@\d+")
"""Figures in percent: one decimal. The others get three significant digits."""


BEST = f"{BEST_ON_TEST} R@1"


def arm_table(study: Study, scale: Scale, results: Results, planned: Mapping[str, Sequence[int]]) -> Table:
    """One row per arm: the study's columns, whose setting it is, how many seeds ran and how long one took.

    Where trainings looked at the test classes on the way, their best R@1 stands beside that of the model reported. A
    figure that fewer seeds have than finished says how many; where arms ran on several devices, a time says on which.

    Args:
        study: whose arms and columns.
        scale: of its arms.
        results: what was found.
        planned: arm → seeds it was to be run with.
    """
    columns = study.columns(scale)
    if any(BEST in outcome.figures for own in results.outcomes.values() for outcome in own):
        columns = {**columns, BEST: BEST}
    devices = {device(outcome) for own in results.outcomes.values() for outcome in own}
    rows = []
    arms = study.arms(scale)
    reading = any(arm.reading for arm in arms)
    for arm in arms:
        outcomes = results.outcomes.get(arm.name, [])
        finished = [outcome for outcome in outcomes if not outcome.stopped]
        cells = [_cell(results.values(arm.name, figure), figure, len(finished)) for figure in columns.values()]
        if not outcomes and cells:
            cells = [NOT_RUN, *[""] * (len(cells) - 1)]
        time = _time(finished, named=len(devices) > 1)
        told = [*([arm.reading or "any"] if reading else []), setting(arm.job).short]
        rows.append([arm.name, *cells, *told, _seeds(outcomes, planned.get(arm.name, [])), time])
    return ["arm", *columns, *(["reading"] if reading else []), "setting", "seeds", "time per seed"], rows


def markdown(table: Table, right: bool = True) -> str:
    """A pipe table of cells that are Markdown already; all but the first column to the right, unless said otherwise."""
    headings, rows = table
    side = "---:" if right else "---"
    lines = [headings, ["---", *[side] * (len(headings) - 1)], *rows]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines)


def inert_table(table: Table) -> Table:
    """The same table, its texts safe in Markdown."""
    headings, rows = table
    return [inert(cell) for cell in headings], [[inert(cell) for cell in row] for row in rows]


def inert(text: str) -> str:
    """Text that Markdown leaves as it is: `HM[S,LGA](&ICS)` is no link, `a<b` no tag, `{: x=y }` no attribute."""
    return _escaped(" ".join(text.split()))


def prose(text: str) -> str:
    """The same for sentences of a study's own, whose `code` stays code."""
    parts = " ".join(text.split()).split("`")
    return "`".join(part if number % 2 else _escaped(part) for number, part in enumerate(parts))


def _escaped(text: str) -> str:
    marked = re.sub(r"[\\`*{]|(?<=\])\(|(?<!\w)_|_(?!\w)", r"\\\g<0>", text)
    return re.sub(r"<(?=[A-Za-z/!?])", "&lt;", re.sub(r"&(?=#?\w+;)", "&amp;", marked))


def spread(values: Sequence[float], figure: str) -> str:
    """`57.2 ± 0.4`; one value stands alone, none is a dash."""
    if not values:
        return "-"
    mean = statistics.fmean(values)
    decimals = _decimals(mean, figure)
    shown = [mean] if len(values) == 1 else [mean, statistics.stdev(values)]
    if decimals > 5:
        return " ± ".join(f"{value:.1e}" for value in shown)
    return " ± ".join(f"{value:,.{decimals}f}" for value in shown)


def duration(seconds: float) -> str:
    """`45 s`, `12 min` or `3.5 h`."""
    if seconds < 90:
        return f"{seconds:.2g} s" if seconds < 10 else f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


def plural(count: int, word: str) -> str:
    """`1 seed`, `2 seeds`."""
    return f"{count} {word}" if count == 1 else f"{count} {word}s"


def _decimals(mean: float, figure: str) -> int:
    """Places after the point."""
    if PERCENT.search(figure):
        return 1
    leading = 0 if mean == 0 else int(f"{mean:.2e}".partition("e")[2])
    return max(0, 2 - leading)


def _seeds(outcomes: Sequence[Outcome], planned: Sequence[int]) -> str:
    """`3`, `1 of 3`, or with why some stopped early."""
    count = str(len(outcomes)) if len(outcomes) >= len(planned) else f"{len(outcomes)} of {len(planned)}"
    stopped = [outcome.stopped for outcome in outcomes if outcome.stopped]
    if not stopped:
        return count
    return f"{count}, {len(stopped)} stopped: {'; '.join(dict.fromkeys(stopped))}"


def _cell(values: Sequence[float], figure: str, finished: int) -> str:
    """`57.2 ± 0.4`, or `57.2 (1)` where other seeds that finished lack the figure."""
    return spread(values, figure) + (f" ({len(values)})" if 0 < len(values) < finished else "")


def _time(finished: Sequence[Outcome], named: bool) -> str:
    """The mean of one device's seeds, with its name if asked for; one that stopped early took no whole time."""
    timed = on_one_device(finished)
    if not timed:
        return ""
    mean = duration(statistics.fmean(outcome.seconds for outcome in timed))
    return f"{mean}, {device(timed[0])}" if named else mean
