"""What is kept of results in a raw file: enough for every table, claim and figure, and no more."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping
from typing import Any

from holdfast.audit.ers import TERMS
from holdfast.run_files import finite
from holdfast_studies.base import Study
from holdfast_studies.drawings import Bars, Lines, Scatter
from holdfast_studies.jobs import Scale
from holdfast_studies.results import BEST_ON_TEST, Outcome, Results

DIGITS = 6
"""Significant ones that are kept of a number."""

POINTS = 400
"""So many points of a curve are kept, evenly spread; claims that read a curve get all of it."""

_TERMS = "|".join(map(re.escape, [*TERMS, "ERS"]))
ALWAYS = re.compile(rf"^(R@1|NMI|mAP@R|collapsed|diverged|log/.*|{BEST_ON_TEST} .*)$|/({_TERMS})$")
"""Figures that are kept whether a study shows them or not: clean retrieval, of the last epoch and of the best on test,
cost, and all terms of ERS."""


def trimmed(study: Study, scale: Scale, results: Results) -> Results:
    """What tables, claims and drawings show, rounded, and the figures that every reader asks for.

    Series that claims read are kept whole, those only drawn are thinned.
    """
    asked, whole = _asked(study, scale, results)
    wanted = asked | set(study.columns(scale).values())
    drawn: set[str] = set()
    for drawing in study.figures(scale):
        if isinstance(drawing, Bars):
            wanted |= set(drawing.figures.values())
        elif isinstance(drawing, Lines):
            wanted.add(drawing.figure)
        elif isinstance(drawing, Scatter):
            wanted |= {drawing.x, drawing.y}
        else:
            drawn.add(drawing.series)
    outcomes = {arm.name: results.outcomes.get(arm.name, []) for arm in study.arms(scale)}
    return Results(
        outcomes={name: [_kept(outcome, wanted, whole, drawn) for outcome in own] for name, own in outcomes.items()}
    )


class _Noting(dict[str, Any]):
    """Figures or series that note the names they are asked for."""

    def __init__(self, content: Mapping[str, Any], asked: set[str]) -> None:
        super().__init__(content)
        self.asked = asked

    def get(self, key: str, default: Any = None) -> Any:
        self.asked.add(key)
        return super().get(key, default)

    def __getitem__(self, key: str) -> Any:
        self.asked.add(key)
        return super().__getitem__(key)


def _asked(study: Study, scale: Scale, results: Results) -> tuple[set[str], set[str]]:
    """Names of the figures and series that claims read, found by letting them read."""
    figures: set[str] = set()
    series: set[str] = set()
    watched = {
        arm: [
            dataclasses.replace(o, figures=_Noting(o.figures, figures), series=_Noting(o.series, series)) for o in own
        ]
        for arm, own in results.outcomes.items()
    }
    for claim in study.claims(scale):
        claim.verdict(Results(outcomes=watched))
    return figures, series


def _kept(outcome: Outcome, wanted: set[str], whole: set[str], drawn: set[str]) -> Outcome:
    series = {
        name: _rounded(found if name in whole else _thinned(found))
        for name, found in outcome.series.items()
        if name in whole | drawn
    }
    reason = outcome.stopped.partition(". ")[0] if outcome.stopped else None  # what follows names folders
    figures = {key: _rounded(value) for key, value in outcome.figures.items() if key in wanted or ALWAYS.search(key)}
    return dataclasses.replace(
        outcome, figures=figures, series=series, seconds=round(outcome.seconds, 1), stopped=reason
    )


def _thinned(found: Any) -> Any:
    if not isinstance(found, list) or len(found) <= POINTS:
        return found
    return [found[round(n * (len(found) - 1) / (POINTS - 1))] for n in range(POINTS)]


def _rounded(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _rounded(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [_rounded(part) for part in value]
    if isinstance(value, float):
        return None if finite(value) is None else float(f"{value:.{DIGITS}g}")
    return value
