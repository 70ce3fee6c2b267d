"""Studies M1 to M5: arms, figures and verdicts."""

from __future__ import annotations

import pytest
from figures_of import asked, figures_of, made_up, mixed_readings, sets_of, undecided_before_decided_after

from holdfast_studies import base
from holdfast_studies.catalogue.mdprop import ONE, SHARED, THREE, TWINS, TWO, WITH
from holdfast_studies.catalogue.mdprop_arms import BASELINES
from holdfast_studies.jobs import SCALES, Arm, Scale, Training
from holdfast_studies.results import Results
from holdfast_studies.setting import setting

IDS = ("M1", "M2", "M3", "M4", "M5")
BOTH = [(study, scale) for study in IDS for scale in SCALES]


def figures(arm: Arm) -> set[str]:
    names = ["clean", *sets_of(arm)]
    pairs = [f"{a}-{b}" for i, a in enumerate(names) for b in names[i + 1 :]]
    return figures_of(arm, {"batchnorm-drift": [f"{kind}/{pair}" for kind in ("weight", "bias") for pair in pairs]})


def status(study: str, text: str, results: Results, scale: Scale = "pocket") -> str:
    """Of the one claim whose words begin so."""
    (claim,) = [claim for claim in base.get(study).claims(scale) if claim.text.startswith(text)]
    return claim.verdict(results).status


def recall(scores: dict[str, float], figure: str = "R@1") -> Results:
    return made_up({arm: {figure: value} for arm, value in scores.items()})


@pytest.mark.parametrize(("name", "scale"), BOTH)
def test_arms_resolve_and_have_what_tables_and_drawings_name(name: str, scale: Scale) -> None:
    study = base.get(name)
    by_name = {arm.name: figures(arm) for arm in study.arms(scale)}
    assert len(by_name) == len(study.arms(scale))
    assert set(study.columns(scale).values()) <= set.union(*by_name.values())
    for drawing in study.plan(scale).drawings:
        arms, wanted = asked(drawing)
        assert all(wanted <= by_name[arm] for arm in arms)


@pytest.mark.parametrize(("name", "scale"), BOTH)
def test_claims_are_undecided_before_and_decided_after_all_arms_have_run(name: str, scale: Scale) -> None:
    def everything(arms: list[Arm]) -> Results:
        """Every figure differs from every other by more than any tolerance, and is the same in every seed."""
        return made_up(
            {
                arm.name: {figure: 9.0 * (20 * place + at) for at, figure in enumerate(sorted(figures(arm)))}
                for place, arm in enumerate(arms)
            }
        )

    undecided_before_decided_after(base.get(name), scale, everything)


@pytest.mark.parametrize(("name", "scale"), BOTH)
def test_a_claim_reads_arms_of_one_reading(name: str, scale: Scale) -> None:
    study = base.get(name)
    assert mixed_readings(study.claims(scale), study.arms(scale), Results(outcomes={})) == []
    read = {claim.reading for claim in study.claims(scale)}
    readings = {*BASELINES["paper"].values()}
    assert len(readings) == 2
    assert {said.partition(";")[0] for said in read} <= {"", *readings}
    assert readings <= read or scale == "pocket" or name == "M5", "every baseline is judged"


def test_pocket_trainings_are_shared_and_have_equal_budgets() -> None:
    cells = [cell for name in IDS for cell in base.get(name).cells("pocket", (0,))]
    assert len({cell.key for cell in cells}) == 27
    recipes = [cell.job.resolved(0) for cell in cells if isinstance(cell.job, Training)]
    assert len(recipes) == len(cells)
    assert {(r.epochs, r.batch.classes, r.batch.per_class) for r in recipes} == {(24, 28, 4)}


def test_at_paper_scale_only_the_length_is_not_the_papers() -> None:
    """60 of 125 epochs, and a sample of queries where a clean gallery is searched."""
    for name in IDS:
        for arm in base.get(name).arms("paper"):
            found = setting(arm.job)
            assert isinstance(arm.job, Training)
            assert arm.job.resolved(0).plain()["data"]["validation"] == 0, arm.name
            assert found.kind == "shortened", (arm.name, found)
            assert set(found.how) <= {"60 of 125 epochs", "stax audit of 1,000 images"}, arm.name


def test_the_campaigns_first_arms_and_their_seeds() -> None:
    arms = {arm.name: arm for arm in base.get("M1").arms("paper")}
    first = ["standard, frozen", "standard", "AT", "AdvProp-D", "MDProp", "released"]
    assert list(arms)[:6] == first
    assert {arms[name].seeds for name in first} == {(0, 1)}
    cars = [f"{name}, CARS" for name in first]
    assert list(arms)[8:14] == cars
    assert {arms[name].seeds for name in cars} == {None}
    policies = {name: arms[name].job.resolved(0).model.batchnorm for name in first}  # type: ignore[union-attr]
    assert {name for name, policy in policies.items() if policy != "train"} == {"standard, frozen"}
    assert arms["released"].job.resolved(0).regime.plain["variant"] == "released"  # type: ignore[union-attr]


def test_every_row_of_the_tables_has_an_arm() -> None:
    names = {arm.name for arm in base.get("M1").arms("paper")}
    rows = ("standard, frozen", "standard", "AT", "AdvProp-D", "MDProp-1", "MDProp")
    for part in ("", ", ArcFace", ", S2SD", ", CARS", ", CARS, ArcFace", ", ResNet-18", ", ResNet-152"):
        assert {f"{row}{part}" for row in rows} <= names
    assert {f"{row}, SOP" for row in rows if row != "AT"} <= names
    sop = [arm.job for arm in base.get("M1").arms("paper") if arm.name.endswith("SOP")]
    assert {job.resolved(0).batch.classes for job in sop if isinstance(job, Training)} == {56}


def test_targets_that_are_spelt_out_are_those_of_the_recipes() -> None:
    """Five targets with two sets are the recipe as shipped; others differ from it in the targets alone."""
    for scale in SCALES:
        found = {}
        for arm in base.get("M4").arms(scale):
            assert isinstance(arm.job, Training)
            found[arm.name] = arm.job.resolved(0).plain()["regime"].get("distributions", [])
        shipped = found[TWO[5]]
        for count in (2, 3, 10):
            first, second = found[TWO[count]]
            assert first == shipped[0]
            assert second == {**shipped[1], "goal": {**shipped[1]["goal"], "targets": count}}
            assert found[ONE[count]] == [second]
        assert [d["goal"].get("targets", 1) for d in found[THREE]] == [1, 3, 5]
        assert [d["goal"]["name"] for d in found[WITH]] == ["single-target", "multi-target", "unadversarial"]
        assert found[WITH][2] == found["UX"][0]


def test_the_clean_order_flips() -> None:
    scores = {"MDProp": 66.0, "AdvProp-D": 64.0, "standard": 63.0, "AT": 61.0}
    assert status("M1", "multi-similarity: clean", recall(scores)) == "holds"
    scores["AdvProp-D"] = 62.0
    assert status("M1", "multi-similarity: clean", recall(scores)) == "does not hold"


def test_the_baselines_are_judged_apart() -> None:
    scores = {"MDProp": 66.0, "AdvProp-D": 64.0, "standard, frozen": 63.0, "standard": 65.0, "AT": 61.0}
    text = "multi-similarity: clean R@1 of MDProp > AdvProp-D > "
    assert status("M1", f"{text}standard, frozen", recall(scores), "paper") == "holds"
    assert status("M1", f"{text}standard >", recall(scores), "paper") == "does not hold"


@pytest.mark.parametrize(("words", "mode"), [("queries", "fixed"), ("all images", "replaced")])
def test_far_above_is_ten_points_of_every_model(words: str, mode: str) -> None:
    scores = {"MDProp": 57.0, "MDProp-1": 57.0, "AdvProp-D": 44.0, "standard": 33.0}
    text = f"multi-similarity: attacked R@1 of models with separate BatchNorm far above standard, {words}"
    assert status("M1", text, recall(scores, f"stax-{mode}/stax/R@1")) == "holds"
    scores["AdvProp-D"] = 42.0
    assert status("M1", text, recall(scores, f"stax-{mode}/stax/R@1")) == "does not hold"


@pytest.mark.parametrize(("ours", "wanted"), [(30.0, "holds"), (50.0, "does not hold")])
def test_less_overlap_is_better(ours: float, wanted: str) -> None:
    results = recall({"MDProp": ours, "standard": 40.0}, "stax-fixed/overlap")
    assert status("M1", "classes overlap less", results) == wanted


def test_a_gain_through_one_set_refutes_that_sets_are_needed() -> None:
    scores = {"standard": 63.0, "MDProp-1": 65.0, SHARED: 62.5, "AT": 62.0}
    texts = ("with a set of their own", "the set makes", "through one set they do", "through one set they make")

    def found() -> list[str]:
        results = made_up({arm: {"R@1": value, "stax-fixed/stax/R@1": value} for arm, value in scores.items()})
        return [status("M2", text, results) for text in texts]

    assert found() == ["holds"] * 4
    scores[SHARED] = 71.0
    assert found() == ["holds", *["does not hold"] * 3]


@pytest.mark.parametrize(("half", "wanted"), [(59.5, "holds"), (58.0, "does not hold")])
def test_half_of_the_images_may_lag_four_points(half: float, wanted: str) -> None:
    results = recall({"standard": 63.0, "MDProp, 0.5 of the images": half})
    assert status("M3", "glyphs: MDProp with half", results) == wanted


def test_the_best_number_of_targets_beats_all_others() -> None:
    scores = {ONE[1]: 63.0, ONE[2]: 63.5, ONE[3]: 65.0, ONE[5]: 64.0, ONE[10]: 62.0}
    assert status("M4", "with one extra set", recall(scores)) == "holds"
    scores[ONE[10]] = 66.0
    assert status("M4", "with one extra set", recall(scores)) == "does not hold"


@pytest.mark.parametrize(("both", "wanted"), [(68.0, "holds"), (71.0, "does not hold")])
def test_unadversarial_images_may_add_less_than_four_points_to_adversaries(both: float, wanted: str) -> None:
    assert status("M4", "beside adversaries", recall({TWO[5]: 66.0, WITH: both})) == wanted


def test_sets_that_differ_by_chance_alone_have_not_drifted_apart() -> None:
    gaps = {"drift/weight/mtax-stax": 0.2, "drift/bias/mtax-stax": 0.4}
    chance = {name: gap / 2 for name, gap in gaps.items()}
    text = "the sets of single- and multi-target images differ more"
    assert status("M5", text, made_up({"MDProp": gaps, TWINS: chance})) == "holds"
    assert status("M5", text, made_up({"MDProp": chance, TWINS: gaps})) == "does not hold"
    seen = {"stax-fixed/R@1": 63.0, "stax-fixed/set/stax/R@1": 62.0, "stax-fixed/set/mtax/R@1": 61.0}
    assert status("M5", "clean images", made_up({"MDProp": seen})) == "holds"
    worse = {**seen, "stax-fixed/set/mtax/R@1": 64.0}
    assert status("M5", "clean images", made_up({"MDProp": worse})) == "does not hold"
