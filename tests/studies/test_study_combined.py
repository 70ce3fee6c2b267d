"""Study X1: arms, the choice on validation classes, the verdict on test classes."""

from __future__ import annotations

import pytest
from figures_of import asked, figures_of, made_up

from holdfast_studies import base
from holdfast_studies.catalogue.beyond import COMBINATIONS, FIGURES, PARTS
from holdfast_studies.catalogue.rules import ChosenBeatsEach
from holdfast_studies.jobs import SCALES, Scale, Training
from holdfast_studies.results import Results

CLEAN, ROBUST = FIGURES
WEAK = {CLEAN.validation: 80.0, ROBUST.validation: 10.0, CLEAN.test: 70.0, ROBUST.test: 10.0}


def claim(scale: Scale = "pocket") -> ChosenBeatsEach:
    (found,) = base.get("X1").claims(scale)
    assert isinstance(found, ChosenBeatsEach)
    return found


def results(**changed: dict[str, float]) -> Results:
    """All arms alike, but for those given."""
    return made_up({arm: {**WEAK, **changed.get(arm, {})} for arm in (*PARTS, *COMBINATIONS)})


@pytest.mark.parametrize("scale", SCALES)
def test_arms_resolve_and_have_what_tables_and_drawings_name(scale: Scale) -> None:
    study = base.get("X1")
    by_name = {arm.name: figures_of(arm) for arm in study.arms(scale)}
    assert set(by_name) == {*PARTS, *COMBINATIONS}
    assert len(COMBINATIONS) >= 6
    shared = set.intersection(*by_name.values())
    assert set(study.columns(scale).values()) <= shared
    assert {name for figure in FIGURES for name in (figure.test, figure.validation)} <= shared
    for drawing in study.plan(scale).drawings:
        arms, wanted = asked(drawing)
        assert arms <= by_name.keys()
        assert wanted <= shared


@pytest.mark.parametrize("scale", SCALES)
def test_combinations_are_what_their_names_say(scale: Scale) -> None:
    budgets = set()
    for arm in base.get("X1").arms(scale):
        assert isinstance(arm.job, Training)
        recipe = arm.job.resolved(0)
        plain = recipe.plain()
        validation = plain["data"]["validation"]
        model = {key: value for key, value in plain["model"].items() if key != "batchnorm"}
        budgets.add(str((recipe.epochs, recipe.batch, plain["augment"], model, plain["schedule"]["name"], validation)))
        assert validation > 0
        if arm.name in COMBINATIONS:
            ideas = arm.name.split(" + ")
            assert plain["regime"]["name"] == "hm"
            assert (plain["regime"]["source"]["name"] == "easy-positive") is ("EPS" in ideas)
            assert (plain["loss"]["name"] == "gradient") is ("direct gradient" in ideas)
            assert plain["regime"]["separate"] is ("separate BatchNorm" in ideas)
    assert len(budgets) == 1


def test_validation_alone_chooses() -> None:
    first, second = COMBINATIONS[:2]
    better = {CLEAN.validation: 82.0, ROBUST.validation: 30.0}
    assert claim().choice(results(**{first: better})) == first
    # What the test classes say has no part in it.
    assert claim().choice(results(**{first: better, second: {CLEAN.test: 99.0, ROBUST.test: 99.0}})) == first
    # A large gain in one figure is worth nothing where the other is lost.
    lopsided = {CLEAN.validation: 60.0, ROBUST.validation: 60.0}
    assert claim().choice(results(**{first: better, second: lopsided})) == first


def test_the_worst_comparison_counts() -> None:
    first, second = COMBINATIONS[:2]
    robust = {ROBUST.validation: 60.0, CLEAN.validation: 70.0}
    middling = {CLEAN.validation: 80.0, ROBUST.validation: 40.0}
    both = {CLEAN.validation: 80.0, ROBUST.validation: 59.0}
    assert claim().choice(results(HM=robust, **{first: middling, second: both})) == second


@pytest.mark.parametrize(
    ("clean", "ers", "wanted"),
    [
        (70.0, 20.0, "holds"),  # more robust, as clean
        (69.5, 20.0, "holds"),  # within the noise as clean
        (68.0, 20.0, "does not hold"),  # more robust, less clean
        (72.0, 9.0, "holds"),  # cleaner, within the noise as robust
        (72.0, 8.0, "does not hold"),  # cleaner, less robust
        (69.5, 9.5, "does not hold"),  # neither
    ],
)
def test_the_verdict_is_that_of_the_test_classes(clean: float, ers: float, wanted: str) -> None:
    chosen = {CLEAN.validation: 82.0, ROBUST.validation: 30.0, CLEAN.test: clean, ROBUST.test: ers}
    found = claim().verdict(results(**{COMBINATIONS[0]: chosen}))
    assert found.status == wanted
    assert COMBINATIONS[0] in found.evidence


def test_one_part_that_is_not_beaten_refutes_it() -> None:
    chosen = {CLEAN.validation: 82.0, ROBUST.validation: 30.0, CLEAN.test: 72.0, ROBUST.test: 30.0}
    assert claim().verdict(results(**{COMBINATIONS[0]: chosen})).status == "holds"
    stronger = {ROBUST.test: 50.0}
    assert claim().verdict(results(HM=stronger, **{COMBINATIONS[0]: chosen})).status == "does not hold"


def test_nothing_is_chosen_before_all_have_run() -> None:
    known = dict(results().outcomes)
    known.pop(COMBINATIONS[-1])
    assert claim().choice(Results(outcomes=known)) is None
    assert claim().verdict(Results(outcomes=known)).status == "undecided"
