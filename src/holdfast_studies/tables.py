"""Tables of arms, mean ± standard deviation over seeds, and what results cost."""

from __future__ import annotations

import dataclasses
import re
import statistics
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import TypeAlias

from holdfast_studies.base import Study
from holdfast_studies.jobs import Job, Scale, Training
from holdfast_studies.results import BEST_ON_TEST, NOT_RUN, Outcome, Results, spread
from holdfast_studies.setting import setting

Table: TypeAlias = tuple[list[str], list[list[str]]]
"""Headings and rows, all as text."""

Ran: TypeAlias = tuple[Job, Outcome]
"""What a cell did, and what came of it."""

BEST = f"{BEST_ON_TEST} R@1"
SECONDS = "log/seconds"
"""The figure that says how long a training took, measures aside."""


def arm_table(study: Study, scale: Scale, results: Results, planned: Mapping[str, Sequence[int]]) -> Table:
    """One row per arm: the study's columns, whose setting it is, how many seeds ran and how long one took.

    Where trainings looked at the test classes on the way, their best R@1 stands beside that of the model reported. A
    figure that fewer seeds have than finished says how many; where arms ran on several devices, a time says on which.

    Args:
        study: which.
        scale: of its arms.
        results: what was found so far.
        planned: arm → seeds it was to be run with.
    """
    columns, arms = study.columns(scale), study.arms(scale)
    every = [outcome for own in results.outcomes.values() for outcome in own]
    columns |= {BEST: BEST} if any(BEST in outcome.figures for outcome in every) else {}
    reading, several = any(arm.reading for arm in arms), len({outcome.device for outcome in every}) > 1
    rows = []
    for arm in arms:
        outcomes = results.outcomes.get(arm.name, [])
        finished = [outcome for outcome in outcomes if not outcome.stopped]
        cells = []
        for figure in columns.values():
            values = results.values(arm.name, figure)
            cells.append(spread(values, figure) + (f" ({len(values)})" if 0 < len(values) < len(finished) else ""))
        if not outcomes and cells:
            cells = [NOT_RUN, *[""] * (len(cells) - 1)]
        timed = on_one_device(finished)  # one that stopped early took no whole time
        time = duration(statistics.fmean(outcome.seconds for outcome in timed)) if timed else ""
        time += f", {timed[0].device}" if timed and several else ""
        told = [*([arm.reading or "any"] if reading else []), setting(arm.job).short]
        rows.append([arm.name, *cells, *told, _seeds(outcomes, planned.get(arm.name, [])), time])
    return ["arm", *columns, *(["reading"] if reading else []), "setting", "seeds", "time per seed"], rows


def _seeds(outcomes: Sequence[Outcome], planned: Sequence[int]) -> str:
    """`3`, `1 of 3`, or with why some stopped early."""
    count = str(len(outcomes)) if len(outcomes) >= len(planned) else f"{len(outcomes)} of {len(planned)}"
    stopped = [outcome.stopped for outcome in outcomes if outcome.stopped]
    return f"{count}, {len(stopped)} stopped: {'; '.join(dict.fromkeys(stopped))}" if stopped else count


def markdown(table: Table, right: bool = True) -> str:
    """A pipe table of cells that are Markdown already; all but the first column to the right, unless said otherwise."""
    headings, rows = table
    lines = [headings, ["---", *["---:" if right else "---"] * (len(headings) - 1)], *rows]
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


def duration(seconds: float) -> str:
    """`45 s`, `12 min` or `3.5 h`."""
    if seconds < 90:
        return f"{seconds:.2g} s" if seconds < 10 else f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


def on_one_device(outcomes: Sequence[Outcome]) -> list[Outcome]:
    """Those of the device that most ran on, the first among equals: times of two devices have no mean."""
    names = {name for name, _ in Counter(outcome.device for outcome in outcomes).most_common(1)}
    return [outcome for outcome in outcomes if outcome.device in names]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Spent:
    """The time that cells took, each once.

    Args:
        cells: how many trainings and computations.
        seconds: of them, and of the trainings that they start from where those are known.
        unknown: how many trainings that they start from are not.
    """

    cells: int
    seconds: float
    unknown: int


def spent(own: Iterable[Ran], every: Iterable[Ran]) -> Spent:
    """What some cells took; one that studies share counts once, with its longest measures."""

    def key(job: Job, seed: int) -> str:
        """A name that equal cells share, whatever seed a raw file claims."""
        return f"{job.key(0)} {seed}"

    cells: dict[str, float] = {}
    starts: set[str] = set()
    for job, outcome in own:
        name = key(job, outcome.seed)
        cells[name] = max(cells.get(name, 0.0), outcome.seconds)
        if isinstance(job, Training) and job.start is not None:
            starts.add(key(job.start, outcome.seed))
    starts -= cells.keys()
    trained = {
        key(job, outcome.seed): seconds for job, outcome in every if (seconds := outcome.known(SECONDS)) is not None
    }
    known = starts & trained.keys()
    seconds = sum(cells.values()) + sum(trained[name] for name in sorted(known))
    return Spent(cells=len(cells), seconds=seconds, unknown=len(starts - known))
