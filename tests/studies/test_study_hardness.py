"""Studies H1 to H5 and X2: arms, figures and verdicts."""

from __future__ import annotations

import dataclasses

import pytest
from figures_of import asked, figures_of, made_up, undecided_before_decided_after

from holdfast_studies import base
from holdfast_studies.catalogue.hardness_arms import more_ers
from holdfast_studies.catalogue.prices import Price
from holdfast_studies.claims import Verdict
from holdfast_studies.drawing import Bars, Scatter
from holdfast_studies.jobs import SCALES, Arm, Scale, Training
from holdfast_studies.results import Outcome, Results
from holdfast_studies.setting import setting

IDS = ("H1", "H2", "H3", "H4", "H5", "X2")
BOTH = [(study, scale) for study in IDS for scale in SCALES]
PROBED = {"mined-hardness": {"hardness", "variance", "variance of means"}, "spent": {"passes"}}
ERS = "ers-fixed/ERS"


def results(values: dict[str, list[float]], figure: str = ERS, collapsed: dict[str, int] | None = None) -> Results:
    """One figure per arm and seed, and an R@1; `collapsed` is arm → in how many of its first seeds."""
    return Results(
        outcomes={
            arm: [
                Outcome(
                    seed=seed, figures={"R@1": 1.0 if seed < (collapsed or {}).get(arm, 0) else 50.0, figure: value}
                )
                for seed, value in enumerate(found)
            ]
            for arm, found in values.items()
        }
    )


@pytest.mark.parametrize(("name", "scale"), BOTH)
def test_arms_resolve_and_have_what_tables_and_drawings_name(name: str, scale: Scale) -> None:
    study = base.get(name)
    arms = study.arms(scale)
    by_name = {arm.name: figures_of(arm, PROBED) for arm in arms}
    assert len(by_name) == len(arms)
    shared = set.intersection(*by_name.values())
    assert set(study.columns(scale).values()) <= shared
    for arm in arms:
        if isinstance(arm.job, Training):
            arm.job.resolved(0)
    for drawing in study.plan(scale).drawings:
        named, wanted = asked(drawing)
        assert named <= by_name.keys()
        assert wanted <= shared
    assert any(isinstance(drawing, (Bars, Scatter)) for drawing in study.plan(scale).drawings)


@pytest.mark.parametrize(("name", "scale"), BOTH)
def test_claims_are_undecided_before_and_decided_after_all_arms_have_run(name: str, scale: Scale) -> None:
    def everything(arms: list[Arm]) -> Results:
        """No two arms alike, none near chance, and each the same in every seed: every difference is known exactly."""
        return made_up(
            {
                arm.name: {
                    **dict.fromkeys(figures_of(arm, PROBED), 10.0 + 5.0 * place**2),
                    "log/passes": 4.0 if "free" in arm.name else 12.0,
                }
                for place, arm in enumerate(arms)
            }
        )

    undecided_before_decided_after(base.get(name), scale, everything)


def test_pocket_trainings_are_shared() -> None:
    cells = [cell for name in IDS for cell in base.get(name).cells("pocket", (0,))]
    assert len({cell.key for cell in cells}) == 33
    assert len(cells) > 40


def test_methods_of_a_table_have_equal_budgets() -> None:
    for scale in SCALES:
        arms = base.get("H4").arms(scale)[:6]
        recipes = [arm.job.resolved(0) for arm in arms if isinstance(arm.job, Training)]
        assert len(recipes) == 6
        assert len({(r.epochs, r.batch.classes * r.batch.per_class, r.mining_groups) for r in recipes}) == 1
        budgets = [r.plain()["regime"]["budget"] for r in recipes if r.regime.name != "standard"]
        parts = {(budget["eps"], budget["step"], budget["steps"]) for budget in budgets}
        assert len(parts) == 1


@pytest.mark.parametrize("name", IDS[:5])
def test_rows_of_the_paper_are_its_own_but_for_length(name: str) -> None:
    own = {"softhard, repaired", "u 0.1", "EST[R], BatchNorm frozen", "HM[S, LGA]&ICS, tuned"}
    for arm in base.get(name).arms("paper"):
        kind = "paper" if name == "H1" else "shortened"
        assert setting(arm.job).kind == ("ours" if arm.name in own else kind), arm.name


def test_rows_are_long_enough() -> None:
    """250,000 triplets: images of the training half, each an anchor once in an epoch."""
    images = {"cub": 5_864, "cars": 8_054, "sop": 59_551}
    for name in IDS[1:5]:
        for arm in base.get(name).arms("paper"):
            if isinstance(arm.job, Training) and "tuned" not in arm.name:
                recipe = arm.job.resolved(0)
                assert recipe.batch.sampler == "pairs"
                assert recipe.epochs * images[str(arm.job.data)] > 250_000
                assert {m.prefix for m in arm.job.measures} == {"ers-fixed", "ers-published"}


def test_every_cell_of_tables_3_to_5_is_there() -> None:
    arms = {arm.name for arm in base.get("H3").arms("paper")}
    swept = ("ACT[R]", "ACT[S]", "HM[R, M]", "HM[S, M]", "HM[S, -γ/2]", "HM[S, LGA]", "HM[S, LGA]&ICS")
    assert {f"{name}, η {eta}" for name in swept for eta in (2, 4, 8, 16, 32)} <= arms
    assert {f"{name}, η 8" for name in ("HM[R, M]&ICS", "HM[S, M]&ICS", "HM[R, LGA]", "HM[R, LGA]&ICS")} <= arms


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


def test_what_a_training_starts_from_is_part_of_its_price() -> None:
    plain = Training("pocket", settings={"epochs": 7})
    taught = Training("hm-lga-ics-pocket", settings={"epochs": 3}, start=plain)
    assert Price.of("a", plain) == Price(arm="a", epochs=7)
    price = Price.of("a", dataclasses.replace(taught, start=dataclasses.replace(taught, settings={}, start=plain)))
    assert price.epochs == 3
    assert price.before == 7 + 5 * Training("hm-lga-ics-pocket").resolved(0).epochs
    assert Price.of("a", taught).passes(made_up({"a": {"log/passes": 4.0}})) == 7 + 12


def test_free_hm_must_be_as_cheap_as_claimed() -> None:
    """By the passes that were counted: HM leaves triplets out, so that half of its nominal passes are more."""
    claim = base.get("X2").claims("pocket")[0]
    free, plain = "free HM, half the passes", "HM[S, LGA]"

    def found(ers: float, passes: float) -> Verdict:
        shared = {"R@1": 50.0}
        costs = {free: {**shared, ERS: ers, "log/passes": 4.0}, plain: {**shared, ERS: 30.0, "log/passes": passes}}
        return claim.verdict(made_up(costs))

    assert found(31.0, 4.3).status == "holds"
    assert "60 to 103, a share of 0.58" in found(31.0, 4.3).evidence
    assert found(31.0, 3.0).status == "undecided"
    assert found(20.0, 4.3).status == found(20.0, 3.0).status == "does not hold"


def test_the_main_rows_have_seeds_enough_and_est_is_there_without_its_batchnorm() -> None:
    arms = {arm.name: arm for arm in base.get("H4").arms("paper")}
    assert {name for name, arm in arms.items() if arm.seeds == (0, 1)} == {"ACT[R]", "HM[S, LGA]", "HM[S, LGA]&ICS"}
    published, frozen, rival = (
        arms[name].job.resolved(0).plain()  # type: ignore[union-attr]
        for name in ("EST[R]", "EST[R], BatchNorm frozen", "ACT[R]")
    )
    assert published["model"]["batchnorm"] == "train"
    assert frozen["model"] == rival["model"] == {**published["model"], "batchnorm": "freeze-statistics"}
    assert {key: value for key, value in frozen.items() if key != "model"} == {
        key: value for key, value in published.items() if key != "model"
    }


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
    fallen = dict.fromkeys(("HM[R, S]", "HM[R, H]", "HM[M, S]", "HM[S, H]", "HM[S, 0]"), 3)
    assert collapses.verdict(results(every, collapsed=fallen)).status == "holds"
    assert trains.verdict(results(every, collapsed={"HM[D, M]": 3})).status == "does not hold"


def test_a_model_that_retrieves_has_not_collapsed_wherever_its_embeddings_lie() -> None:
    trains, collapses = base.get("H2").claims("pocket")[:2]
    flat = {arm.name: {"R@1": 28.0, "collapsed": 1.0} for arm in base.get("H2").arms("pocket")}
    assert trains.verdict(made_up(flat)).status == "holds"
    lost = {arm: {"R@1": 0.8, "collapsed": 0.0} for arm in flat}
    assert collapses.verdict(made_up(lost)).status == "holds"


def test_levelling_off_is_about_gains() -> None:
    claim = base.get("H3").claims("pocket")[1]
    arms = [f"HM[S, LGA], η {eta}" for eta in (2, 4, 8)]

    def status(*scores: float) -> str:
        return claim.verdict(results({arm: [score] * 3 for arm, score in zip(arms, scores, strict=True)})).status

    assert status(20, 30, 32) == "holds"
    assert status(20, 22, 32) == "does not hold"
    assert status(20, 22, 24) == "undecided"
    assert status(20, 30, 29) == "holds"
    assert status(20, 30, 22) == "does not hold"  # a fall is no levelling off


def test_the_ers_of_a_collapsed_model_decides_nothing() -> None:
    claim = more_ers("a > b", ("a", "b"), noise=3.0)
    scores = {"a": [30.0, 31.0, 32.0], "b": [20.0, 20.5, 22.0], "c": [0.0] * 3}
    assert claim.verdict(results(scores)).status == "holds"
    assert claim.verdict(results(scores, collapsed={"c": 3})).status == "holds"
    assert claim.verdict(results(scores, collapsed={"b": 1})).status == "holds"
    found = claim.verdict(results(scores, collapsed={"a": 3}))
    assert found.status == "undecided"
    assert "a with seed 2 collapsed" in found.evidence


def test_a_method_that_collapses_in_one_seed_is_not_upheld_by_the_others() -> None:
    claim = more_ers("a > b", ("a", "b"), noise=3.0)
    ahead = {"a": [30.0, 31.0, 32.0], "b": [20.0, 20.5, 22.0]}
    found = claim.verdict(results(ahead, collapsed={"a": 1}))
    assert found.status == "undecided"
    assert "a with seed 0 collapsed" in found.evidence
    behind = {"a": ahead["b"], "b": ahead["a"]}
    assert claim.verdict(results(behind, collapsed={"a": 1})).status == "does not hold"
    stopped = results(ahead)
    stopped.outcomes["a"][0] = Outcome(seed=0, figures={}, stopped="the embeddings are one point")
    assert claim.verdict(stopped).status == "undecided"


def test_more_ers_flips() -> None:
    claim = base.get("H4").claims("pocket")[0]
    scores = {"EST[R]": [8.0] * 3, "ACT[R]": [31.0] * 3, "HM[S, LGA]": [32.0] * 3, "HM[S, LGA]&ICS": [33.0] * 3}
    assert claim.verdict(results(scores)).status == "holds"
    assert claim.verdict(results({**scores, "ACT[R]": [32.5] * 3})).status == "does not hold"


@pytest.mark.parametrize("name", ["H2", "H3", "H4", "H5"])
def test_ers_is_judged_as_the_paper_measured_it(name: str) -> None:
    beyond = {claim.text: claim.limit for claim in base.get(name).claims("paper") if "ERS" in claim.text}
    assert all(limit == ("fixed protocol" in text) for text, limit in beyond.items())
    assert set(beyond.values()) == {False, True}
    assert not any(claim.limit for claim in base.get(name).claims("pocket"))
