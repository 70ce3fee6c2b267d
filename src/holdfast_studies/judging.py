"""Claims of a study against its results, each on the ground that its arms stand on, and what of results they need."""

from __future__ import annotations

import dataclasses
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

from holdfast.audit.ers import TERMS
from holdfast.errors import plural
from holdfast.robustness import ROBUST
from holdfast.run_files import finite
from holdfast_studies.base import Study
from holdfast_studies.claims import LEVEL, Claim, Standing, Verdict
from holdfast_studies.drawing import Curves
from holdfast_studies.jobs import Scale
from holdfast_studies.results import BEST_ON_TEST, Outcome, Results
from holdfast_studies.setting import Setting, joint, settings
from holdfast_studies.tables import Table

JUDGEMENT = re.compile(rf"\[(holds|does not hold|undecided)\] |, {LEVEL}")
"""What parts of a claim come to, in its evidence."""

DIGITS = 6
"""Significant ones that are kept of a number."""

POINTS = 400
"""So many points of a curve are kept, evenly spread; claims that read a curve get all of it."""

_AUDITED = "|".join(map(re.escape, [*TERMS, "ERS", ROBUST]))
ALWAYS = re.compile(rf"^(R@1|NMI|mAP@R|collapsed|diverged|log/.*|{BEST_ON_TEST} .*)$|/({_AUDITED})$")
"""Figures that are kept whether a study shows them or not: clean retrieval, of the last epoch and of the best on test,
cost, all terms of ERS, and robust R@1."""

V = TypeVar("V")


def verdicts(study: Study, scale: Scale, results: Results) -> list[Verdict]:
    """What its claims come to."""
    grounds = settings(study.arms(scale))
    return [judged(claim, results, grounds, study.ours) for claim in study.claims(scale)]


def judged(claim: Claim, results: Results, grounds: Mapping[str, Setting], ours: bool = False) -> Verdict:
    """One claim: a verdict where every arm that it reads runs in the paper's setting or a shorter one.

    Args:
        claim: which.
        results: of all arms.
        grounds: arm → whose setting it runs in.
        ours: the claim is of no paper, and judged in any setting.
    """
    noted = Noting(results.outcomes)
    found = claim.verdict(Results(outcomes=noted))
    ground = joint(grounds[arm] for arm in noted.asked if arm in grounds)
    standing: Standing = "verdict" if ground.decides else "observation"
    if claim.limit or ours:
        standing = "limit" if claim.limit else "ours"
    evidence = found.evidence if standing in ("verdict", "ours") else JUDGEMENT.sub("", found.evidence)
    return dataclasses.replace(found, evidence=evidence, ground=ground, standing=standing, reading=claim.reading)


class Noting(dict[str, V]):
    """A mapping that notes the names it is asked for, in order; several may note into one."""

    def __init__(self, content: Mapping[str, V], asked: dict[str, None] | None = None) -> None:
        super().__init__(content)
        self.asked = {} if asked is None else asked

    def get(self, key: str, default: Any = None) -> Any:
        """As of any mapping, noted."""
        self.asked[key] = None
        return super().get(key, default)

    def __getitem__(self, key: str) -> V:
        self.asked[key] = None
        return super().__getitem__(key)


def trimmed(study: Study, scale: Scale, results: Results) -> Results:
    """What tables, claims and drawings show, rounded, and the figures that every reader asks for.

    Series that claims read are kept whole, those only drawn are thinned.
    """
    wanted: dict[str, None] = {}
    whole: dict[str, None] = {}
    watched = {
        arm: [dataclasses.replace(o, figures=Noting(o.figures, wanted), series=Noting(o.series, whole)) for o in own]
        for arm, own in results.outcomes.items()
    }
    for claim in study.claims(scale):
        claim.verdict(Results(outcomes=watched))
    wanted |= dict.fromkeys(study.columns(scale).values())
    drawn = set(whole)
    for drawing in study.figures(scale):
        if isinstance(drawing, Curves):
            drawn.add(drawing.series)
        else:
            wanted |= dict.fromkeys(drawing.shown)

    def kept(outcome: Outcome) -> Outcome:
        series = {
            name: _rounded(found if name in whole else _thinned(found))
            for name, found in outcome.series.items()
            if name in drawn
        }
        return dataclasses.replace(
            outcome,
            figures={k: _rounded(value) for k, value in outcome.figures.items() if k in wanted or ALWAYS.search(k)},
            series=series,
            seconds=round(outcome.seconds, 1),
            stopped=outcome.stopped and outcome.stopped.partition(". ")[0],  # what follows names folders
        )

    return Results(
        outcomes={arm.name: [kept(o) for o in results.outcomes.get(arm.name, [])] for arm in study.arms(scale)}
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


def counted(found: Sequence[Verdict]) -> str:
    """How many claims are decided on the papers' ground, and what the others are: a page in a sentence or two."""
    judged, seen, waiting = _parts(found)
    kinds = Counter(verdict.standing for verdict in found)
    decided = judged["holds"] + judged["does not hold"]
    return (
        f"{plural(judged.total() + seen + waiting, 'claim')} of the papers: {decided} decided on the papers' ground "
        f"({judged['holds']} hold, {judged['does not hold']} do not), {judged['undecided']} undecided there, "
        f"{plural(seen, 'observation')} in other settings, {waiting} not all run. "
        f"Besides, {plural(kinds['limit'], 'limit')} of claims and {plural(kinds['ours'], 'claim')} of ours."
    )


def shares(found: Sequence[Verdict]) -> str:
    """What became of one paper's claims; of ours, where no paper has any."""
    if all(verdict.standing == "ours" for verdict in found):
        found = [dataclasses.replace(verdict, standing="verdict") for verdict in found]
    judged, seen, waiting = _parts(found)
    told = {"hold": judged["holds"], "do not hold": judged["does not hold"], "undecided": judged["undecided"]}
    told |= {"observed in other settings": seen, "not all run": waiting}
    every = plural(judged.total() + seen + waiting, "claim")
    return f"{every} ({', '.join(f'{word}: {count}' for word, count in told.items() if count)})"


def by_reading(found: Sequence[Verdict]) -> Table | None:
    """Those of one paper, a row for each reading of what it leaves unsaid; None where it has no claims."""
    claims = [verdict for verdict in found if verdict.standing in ("verdict", "observation")]
    rows = []
    for reading in dict.fromkeys(verdict.reading for verdict in claims):
        judged, seen, waiting = _parts([verdict for verdict in claims if verdict.reading == reading])
        numbers = (judged["holds"], judged["does not hold"], judged["undecided"], seen, waiting)
        rows.append([reading or "none needed", *map(str, numbers)])
    headings = ["reading", "hold", "do not hold", "undecided", "observations", "not all run"]
    return (headings, rows) if rows else None


def _parts(found: Sequence[Verdict]) -> tuple[Counter[str], int, int]:
    """Verdicts by status, observations, and claims of a paper that wait for runs."""
    judged = Counter[str](v.status for v in found if v.standing == "verdict" and not v.unfinished)
    seen = sum(v.standing == "observation" and not v.unfinished for v in found)
    waiting = sum(v.standing in ("verdict", "observation") and v.unfinished for v in found)
    return judged, seen, waiting
