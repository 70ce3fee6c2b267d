"""Study X4: the trials of the search, and when one of them counts as better."""

from __future__ import annotations

import pytest
from figures_of import asked, figures_of, made_up

from holdfast_studies import base
from holdfast_studies.catalogue.search import BASE
from holdfast_studies.jobs import SCALES, AuditMeasure, Scale, Training
from holdfast_studies.results import Status

CLEAN, ROBUST = "log/validation R@1", "val-ers/ERS"


def trainings(scale: Scale) -> dict[str, Training]:
    found = {arm.name: arm.job for arm in base.get("X4").arms(scale)}
    assert all(isinstance(job, Training) for job in found.values())
    return found  # type: ignore[return-value]


@pytest.mark.parametrize("scale", SCALES)
def test_trials_are_many_all_different_and_measured_alike(scale: Scale) -> None:
    study, jobs = base.get("X4"), trainings(scale)
    assert len(jobs) >= 25
    assert len({job.identity(0) for job in jobs.values()}) == len(jobs)
    shared = set.intersection(*(figures_of(arm) for arm in study.arms(scale)))
    assert set(study.columns(scale).values()) <= shared
    (frontier,) = study.plan(scale).drawings
    named, wanted = asked(frontier)
    assert named == jobs.keys()
    assert wanted <= shared


@pytest.mark.parametrize("scale", SCALES)
def test_no_trial_is_judged_on_test_classes(scale: Scale) -> None:
    for job in trainings(scale).values():
        assert all(isinstance(measure, AuditMeasure) and measure.split == "val" for measure in job.measures)
        recipe = job.resolved(0)
        assert not recipe.test_curve
        assert recipe.plain()["data"]["validation"] > 0
        assert job.start is None or job.start.resolved(0).plain()["data"] == recipe.plain()["data"]
    assert not any(figure in ("R@1", "ers-fixed/ERS") for figure in base.get("X4").columns(scale).values())


@pytest.mark.parametrize("scale", SCALES)
def test_trials_are_what_their_names_say(scale: Scale) -> None:
    same = set()
    for name, job in trainings(scale).items():
        recipe = job.resolved(0)
        plain = recipe.plain()
        extras = {extra["name"]: extra for extra in plain["extras"]}
        epochs = recipe.epochs / (3 if "thrice as long" in name else 9 if "nine times as long" in name else 1)
        same.add((epochs, plain["model"]["backbone"], plain["model"]["dim"], recipe.ema, plain["schedule"]["name"]))
        assert ("progressive-resizing" in extras) is ("smaller images" in name)
        assert ("teacher" in extras) is ("teacher" in name)
        assert ("consistency" in extras) is ("consistency" in name)
        assert ("awp" in extras) is ("AWP" in name)
        assert (recipe.init is not None) is ("from" in name)
        assert plain["regime"]["name"] == {"HM": "hm", "AT": "at", "AC": "act", "CA": "tride", "AD": "adml"}[name[:2]]
    assert len(same) == 1


@pytest.mark.parametrize(
    ("clean", "robust", "status"),
    [(60.0, 40.0, "holds"), (60.0, 30.0, "undecided"), (40.0, 45.0, "does not hold"), (50.0, 20.0, "does not hold")],
)
def test_one_trial_must_be_better_in_both_figures(clean: float, robust: float, status: Status) -> None:
    names = list(trainings("paper"))
    worse = {name: {CLEAN: 40.0, ROBUST: 20.0} for name in names}
    found = {**worse, BASE: {CLEAN: 50.0, ROBUST: 30.0}, names[-1]: {CLEAN: clean, ROBUST: robust}}
    (claim,) = base.get("X4").claims("paper")
    verdict = claim.verdict(made_up(found, seeds=1))
    assert verdict.status == status
    assert f"{len(names) - 1} of {len(names) - 1} run" in verdict.evidence
    del found[names[-2]]
    assert claim.verdict(made_up(found, seeds=1)).status == ("holds" if status == "holds" else "undecided")
    assert claim.verdict(made_up({}, seeds=1)).status == "undecided"
