"""Arms that several studies have: what one of them ran counts in the others, too."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping

from holdfast_studies.base import Study
from holdfast_studies.document import plain_job
from holdfast_studies.jobs import Job, Scale
from holdfast_studies.judging import Noting
from holdfast_studies.results import Outcome, Results


def shared(study: Study, scale: Scale, own: Results, others: Iterable[tuple[Study, Results]]) -> Results:
    """A study's results, and outcomes of equal arms of other studies with seeds that it lacks.

    Raw files keep the figures that their own study shows; an outcome without one that this study asks for stays away.

    Args:
        study: which.
        scale: of all results.
        own: its results.
        others: studies and their results, from the first to be asked to the last.
    """
    known: dict[str, dict[int, Outcome]] = {}
    for other, results in others:
        for arm in other.arms(scale):
            for outcome in results.outcomes.get(arm.name, []):
                known.setdefault(_text(arm.job), {}).setdefault(outcome.seed, outcome)
    offered = {arm.name: known.get(_text(arm.job), {}) for arm in study.arms(scale)}
    joined = {name: _joined(own.outcomes.get(name, []), more.values()) for name, more in offered.items()}
    asked = _asked(study, scale, joined)
    fit = {
        name: [outcome for outcome in more.values() if asked[name] <= {*outcome.figures, *outcome.series}]
        for name, more in offered.items()
    }
    return Results(outcomes={name: _joined(own.outcomes.get(name, []), more) for name, more in fit.items()})


def _joined(own: Iterable[Outcome], more: Iterable[Outcome]) -> list[Outcome]:
    found = {outcome.seed: outcome for outcome in (*more, *own)}
    return [found[seed] for seed in sorted(found)]


def _asked(study: Study, scale: Scale, outcomes: Mapping[str, list[Outcome]]) -> dict[str, set[str]]:
    """Arm → figures and series that the study would show of it or judge by; what a log may lack is none of them."""
    noted: dict[str, dict[str, None]] = {name: {} for name in outcomes}
    watched = {
        name: [
            Outcome(seed=o.seed, figures=Noting(o.figures, noted[name]), series=Noting(o.series, noted[name]))
            for o in found
        ]
        for name, found in outcomes.items()
    }
    for claim in study.claims(scale):
        claim.verdict(Results(outcomes=watched))
    columns = set(study.columns(scale).values())
    return {name: {key for key in {*own, *columns} if not key.startswith("log/")} for name, own in noted.items()}


def _text(job: Job) -> str:
    return json.dumps(plain_job(job), sort_keys=True)
