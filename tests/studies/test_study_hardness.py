"""Studies H1 to H5 and X2: arms, figures and verdicts."""

from __future__ import annotations

import pytest

from holdfast.contributions import CONTRIBUTIONS
from holdfast.studies import base
from holdfast.studies.catalogue.hardness_claims import more_ers
from holdfast.studies.drawings import Bars, Curves, Lines, Scatter
from holdfast.studies.jobs import SCALES, Arm, Audit, Scale, Training
from holdfast.studies.results import Outcome, Results

IDS = ("H1", "H2", "H3", "H4", "H5", "X2")
BOTH = [(study, scale) for study in IDS for scale in SCALES]
TRAINED = {"R@1", "NMI", "collapsed", "distance_all", "log/passes", "log/seconds"}
PROBED = {"mined-hardness": {"hardness", "variance"}, "spent": {"passes"}}
ERS = "ers-fixed/ERS"


def figures(arm: Arm) -> set[str]:
    """What an arm's outcome holds."""
    found = set(TRAINED) if isinstance(arm.job, Training) else set()
    for measure in arm.job.measures:
        keys = {"ERS", *CONTRIBUTIONS} if isinstance(measure, Audit) else PROBED[measure.function]
        found |= {f"{measure.prefix}/{key}" for key in keys}
    return found


def results(values: dict[str, list[float]], figure: str = ERS, collapsed: tuple[str, ...] = ()) -> Results:
    """One figure per arm and seed."""
    return Results(
        outcomes={
            arm: [
                Outcome(seed=seed, figures={figure: value, "collapsed": float(arm in collapsed)})
                for seed, value in enumerate(found)
            ]
            for arm, found in values.items()
        }
    )


@pytest.mark.parametrize(("name", "scale"), BOTH)
def test_arms_resolve_and_have_what_tables_and_drawings_name(name: str, scale: Scale) -> None:
    study = base.get(name)
    arms = study.arms(scale)
    by_name = {arm.name: figures(arm) for arm in arms}
    assert len(by_name) == len(arms)
    shared = set.intersection(*by_name.values())
    assert set(study.columns(scale).values()) <= shared
    for arm in arms:
        if isinstance(arm.job, Training):
            arm.job.resolved(0)
    for drawing in study.drawings(scale):
        if isinstance(drawing, Lines):
            named, wanted = {arm for line in drawing.lines.values() for arm in line.values()}, {drawing.figure}
        else:
            assert not isinstance(drawing, Curves)
            named = set(drawing.arms)
            wanted = set(drawing.figures.values()) if isinstance(drawing, Bars) else {drawing.x, drawing.y}
        assert named <= by_name.keys()
        assert wanted <= shared
    assert any(isinstance(drawing, (Bars, Scatter)) for drawing in study.drawings(scale))


@pytest.mark.parametrize(("name", "scale"), BOTH)
def test_claims_are_undecided_before_and_decided_after_all_arms_have_run(name: str, scale: Scale) -> None:
    study = base.get(name)
    arms, claims = study.arms(scale), study.claims(scale)
    assert len({claim.text for claim in claims}) == len(claims)
    nothing = Results(outcomes={arm.name: [] for arm in arms})
    assert {claim.verdict(nothing).status for claim in claims} == {"undecided"}
    # No two arms alike, and each the same in every seed: every difference is known exactly.
    everything = Results(
        outcomes={
            arm.name: [
                Outcome(seed=seed, figures={**dict.fromkeys(figures(arm), 5.0 * place**2), "collapsed": 0.0})
                for seed in range(3)
            ]
            for place, arm in enumerate(arms)
        }
    )
    for claim in claims:
        found = claim.verdict(everything)
        assert "not run" not in found.evidence
        assert found.status != "undecided", found


def test_pocket_trainings_are_shared() -> None:
    cells = [cell for name in IDS for cell in base.get(name).cells("pocket", (0,))]
    assert len({cell.key for cell in cells}) == 33
    assert len(cells) > 45


def test_methods_of_a_table_have_equal_budgets() -> None:
    for scale in SCALES:
        arms = [arm for arm in base.get("H4").arms(scale) if not arm.name.endswith(("η 32", "cars", "sop"))]
        recipes = [arm.job.resolved(0) for arm in arms if isinstance(arm.job, Training)]
        assert len(recipes) == 7
        assert len({(r.epochs, r.batch.classes * r.batch.per_class, r.mining_groups) for r in recipes}) == 1
        budgets = [r.plain()["regime"]["budget"] for r in recipes if r.regime.name != "standard"]
        parts = {(budget["eps"], budget["step"], budget["steps"]) for budget in budgets}
        assert len(parts) == 1


def test_free_hm_never_has_more_passes_than_what_it_is_compared_with() -> None:
    for scale in SCALES:
        jobs = {arm.name: arm.job for arm in base.get("X2").arms(scale)}
        spent = {}
        for name, job in jobs.items():
            assert isinstance(job, Training)
            recipe = job.resolved(0)
            spent[name] = recipe.epochs * recipe.regime.build().passes
        whole = spent["HM[S, LGA]"]
        assert 0.95 * whole < spent["free HM, equal passes"] <= whole
        assert 0.45 * whole < spent["free HM, half the passes"] <= spent["HM[S, LGA], half the epochs"] == whole / 2
        assert spent["free HM, equal epochs"] < whole


def test_the_order_of_miners_flips_with_one_figure() -> None:
    order = base.get("H1").claims("pocket")[0]
    found = {"random": [-0.16] * 3, "semihard": [-0.13] * 3, "softhard": [-0.08] * 3, "distance": [0.04] * 3}
    figure = "mined-hardness/hardness"
    assert order.verdict(results(found, figure)).status == "holds"
    assert order.verdict(results({**found, "softhard": [-0.2] * 3}, figure)).status == "does not hold"
    assert order.verdict(results({**found, "softhard": [-0.2, -0.1, -0.05]}, figure)).status == "undecided"


def test_one_collapse_flips_the_grid() -> None:
    trains, collapses = base.get("H2").claims("pocket")[:2]
    every = {arm.name: [20.0] * 3 for arm in base.get("H2").arms("pocket")}
    assert trains.verdict(results(every)).status == "holds"
    assert collapses.verdict(results(every)).status == "does not hold"
    fallen = ("HM[R, S]", "HM[R, H]", "HM[M, S]", "HM[S, H]", "HM[S, 0]")
    assert collapses.verdict(results(every, collapsed=fallen)).status == "holds"
    assert trains.verdict(results(every, collapsed=("HM[D, M]",))).status == "does not hold"


def test_levelling_off_is_about_gains() -> None:
    claim = base.get("H3").claims("pocket")[1]
    arms = [f"HM[S, LGA], η {eta}" for eta in (2, 4, 8)]

    def status(*scores: float) -> str:
        return claim.verdict(results({arm: [score] * 3 for arm, score in zip(arms, scores, strict=True)})).status

    assert status(20, 30, 32) == "holds"
    assert status(20, 22, 32) == "does not hold"
    assert status(20, 22, 24) == "undecided"


def test_the_ers_of_a_collapsed_model_decides_nothing() -> None:
    claim = more_ers("a > b", "a", "b")
    scores = {"a": [30.0, 31.0, 32.0], "b": [20.0, 20.5, 22.0], "c": [0.0] * 3}
    assert claim.verdict(results(scores)).status == "holds"
    assert claim.verdict(results(scores, collapsed=("c",))).status == "holds"
    found = claim.verdict(results(scores, collapsed=("a",)))
    assert found.status == "undecided"
    assert "a with seed 2 collapsed" in found.evidence


def test_more_ers_flips() -> None:
    claim = base.get("H4").claims("pocket")[0]
    scores = {"EST[R]": [8.0] * 3, "ACT[R]": [31.0] * 3, "HM[S, LGA]": [32.0] * 3, "HM[S, LGA]&ICS": [33.0] * 3}
    assert claim.verdict(results(scores)).status == "holds"
    assert claim.verdict(results({**scores, "ACT[R]": [32.5] * 3})).status == "does not hold"
