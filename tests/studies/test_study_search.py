"""Studies X4 and X6: the trials of both searches, and when one of them counts as better."""

from __future__ import annotations

import json
from typing import Any

import pytest
from figures_of import asked, figures_of, made_up

from holdfast.errors import HoldfastError
from holdfast.extras import START
from holdfast_studies import base
from holdfast_studies.catalogue.search import BASE, FIRST
from holdfast_studies.command import chosen
from holdfast_studies.jobs import SCALES, AuditMeasure, Scale, Training
from holdfast_studies.results import Status

CLEAN, ROBUST = "log/validation R@1", "val-ers/ERS"


SEARCHES = [("X4", scale) for scale in SCALES] + [("X6", "paper")]


def trainings(scale: Scale, study: str = "X4") -> dict[str, Training]:
    found = {arm.name: arm.job for arm in base.get(study).arms(scale)}
    assert all(isinstance(job, Training) for job in found.values())
    return found  # type: ignore[return-value]


@pytest.mark.parametrize(("name", "scale"), SEARCHES)
def test_trials_are_many_all_different_and_measured_alike(name: str, scale: Scale) -> None:
    study, jobs = base.get(name), trainings(scale, name)
    assert len(jobs) >= (25 if name == "X4" else 8)
    assert len({job.identity(0) for job in jobs.values()}) == len(jobs)
    shared = set.intersection(*(figures_of(arm) for arm in study.arms(scale)))
    assert set(study.columns(scale).values()) <= shared
    (frontier,) = study.plan(scale).drawings
    named, wanted = asked(frontier)
    assert named == jobs.keys()
    assert wanted <= shared


@pytest.mark.parametrize(("name", "scale"), SEARCHES)
def test_no_trial_is_judged_on_test_classes(name: str, scale: Scale) -> None:
    for job in trainings(scale, name).values():
        assert all(isinstance(measure, AuditMeasure) and measure.split == "val" for measure in job.measures)
        recipe = job.resolved(0)
        assert not recipe.test_curve
        assert recipe.plain()["data"]["validation"] > 0
        assert job.start is None or job.start.resolved(0).plain()["data"] == recipe.plain()["data"]
    assert not any(figure in ("R@1", "ers-fixed/ERS") for figure in base.get(name).columns(scale).values())


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


def test_the_second_search_begins_with_what_the_first_chose_and_has_other_validation_classes() -> None:
    jobs = trainings("paper", "X6")
    first, trial = jobs[FIRST], trainings("paper")["HM&ICS, from its teacher, whose embeddings are kept"]
    assert first.start is not None
    assert trial.start is not None
    named = {first.start.key(0): START, trial.start.key(0): START}

    def recipe(job: Training) -> dict[str, Any]:
        text = json.dumps(job.resolved(0).plain())
        for name, start in named.items():
            text = text.replace(name, start)
        return dict(json.loads(text))

    theirs, ours = recipe(trial), recipe(first)
    assert (theirs["data"].pop("validation_seed"), ours["data"].pop("validation_seed")) == (0, 1)
    assert ours == theirs


def test_trials_of_the_second_search_are_what_their_names_say() -> None:
    jobs = trainings("paper", "X6")
    basis = jobs[FIRST].resolved(0).plain()
    for name, job in jobs.items():
        assert job.start is not None
        recipe, teacher = job.resolved(0).plain(), job.start.resolved(0).plain()
        model, augment = recipe["model"], recipe["augment"]
        assert (model["fit"] == "crop") is ("shapes kept" in name)
        assert (model["size"] == model["canvas"]) is ("whole images" in name), "no border is cut off"
        assert (model["size"] == 288) is ("288" in name)
        assert (augment["name"] == "random-resized-crop") is ("wider crops" in name)
        assert (augment["size"] or model["size"]) == 224, "as many pixels to learn from"
        assert (model["dim"] == 2048) is ("2,048" in name)
        assert all(teacher["model"][key] == model[key] for key in ("fit", "dim", "backbone"))
        others = {key: value for key, value in recipe.items() if key not in ("model", "augment", "init", "extras")}
        assert others == {key: basis[key] for key in others}


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


def test_a_study_without_a_scale_says_which_it_has() -> None:
    with pytest.raises(HoldfastError, match="--scale paper"):
        chosen(["X6"], "pocket")
    assert [study.id for study in chosen(["X6"], "paper")] == ["X6"]
    assert "X6" not in [study.id for study in chosen(["all"], "pocket")]
