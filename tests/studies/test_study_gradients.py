"""Studies G1 to G6: arms, figures and verdicts."""

from __future__ import annotations

import statistics

import pytest
import torch
from figures_of import mixed_readings, trained, undecided_before_decided_after

from holdfast.gradients import Diagram
from holdfast_studies import base
from holdfast_studies.catalogue import direct_gradients_arms as printed
from holdfast_studies.catalogue.rules import VALIDATION, best_rate, most, steadier, tuned, used
from holdfast_studies.claims import Beyond, Near, Ordered, Verdict
from holdfast_studies.drawing import Curves, Lines
from holdfast_studies.jobs import SCALES, Arm, Probe, Scale, Training
from holdfast_studies.measures.embedded import TripletDiagram
from holdfast_studies.results import Outcome, Results
from holdfast_studies.setting import settings

IDS = ("G1", "G2", "G3", "G4", "G5")
BOTH = [*((study, scale) for study in IDS for scale in SCALES), ("G6", "paper")]


def outcomes(arm_values: dict[str, list[tuple[float, float]]], figure: str = "R@1") -> Results:
    """Results from (figure, validation R@1) per seed."""
    return Results(
        outcomes={
            arm: [
                Outcome(seed=seed, figures={figure: test, VALIDATION: validation})
                for seed, (test, validation) in enumerate(values)
            ]
            for arm, values in arm_values.items()
        }
    )


def produced(study: base.Study, scale: Scale) -> set[str]:
    """Every figure that all arms of a study have."""
    shares = TripletDiagram().shares(Diagram(torch.ones(2), torch.zeros(2)))
    found = []
    for arm in study.arms(scale):
        probes = [m for m in arm.job.measures if isinstance(m, Probe) and m.function == "triplet-diagram"]
        parts = ("train", "test") if scale == "pocket" else ("train", "test", "batches")
        found.append(trained(arm) | {f"{p.prefix}/{part}/{key}" for p in probes for part in parts for key in shares})
    return set.intersection(*found)


@pytest.mark.parametrize(("name", "scale"), BOTH)
def test_arms_resolve_and_are_called_apart(name: str, scale: Scale) -> None:
    study = base.get(name)
    assert study.id == name
    arms = study.arms(scale)
    assert len({arm.name for arm in arms}) == len(arms)
    assert len({cell.key for cell in study.cells(scale, (0,))}) == len(arms)
    for arm in arms:
        assert isinstance(arm.job, Training)
        recipe = arm.job.resolved(0)
        assert recipe.loss.name == "gradient"
        assert recipe.optimizer.plain["lr"] == pytest.approx(float(arm.name.rsplit("@", 1)[1]))


@pytest.mark.parametrize(("name", "scale"), BOTH)
def test_columns_and_drawings_name_what_arms_have(name: str, scale: Scale) -> None:
    study = base.get(name)
    known, figures = {arm.name for arm in study.arms(scale)}, produced(study, scale)
    assert set(study.columns(scale).values()) <= figures
    for drawing in study.plan(scale).drawings:
        if isinstance(drawing, Lines):
            assert {arm for line in drawing.lines.values() for arm in line.values()} <= known
            assert drawing.figure in figures
        else:
            assert isinstance(drawing, Curves)
            assert set(drawing.arms) <= known
            assert drawing.series in ("triplets/train", "triplets/test", "triplets/batches")


@pytest.mark.parametrize(("name", "scale"), BOTH)
def test_claims_are_undecided_before_and_decided_after_all_arms_have_run(name: str, scale: Scale) -> None:
    study = base.get(name)
    figures = produced(study, scale)

    def everything(arms: list[Arm]) -> Results:
        """No two differences alike, and each arm the same in every seed: every difference is known exactly."""
        return Results(
            outcomes={
                arm.name: [
                    Outcome(seed=seed, figures=dict.fromkeys(figures, 50.0 + 5 * place**1.5)) for seed in range(3)
                ]
                for place, arm in enumerate(arms)
            }
        )

    undecided_before_decided_after(study, scale, everything)


def test_classes_are_held_out_for_choosing_rates_and_nowhere_else_at_paper_size() -> None:
    for name in (*IDS, "G6"):
        assert all((VALIDATION in trained(arm)) == (name == "G6") for arm in base.get(name).arms("paper")), name


def rates(study: str, start: str) -> dict[str, set[float]]:
    """Rule → the learning rates at which it is trained on some data."""
    found: dict[str, set[float]] = {}
    for arm in base.get(study).arms("paper"):
        rule, _, rate = arm.name.partition(" @ ")
        if rule.startswith(start):
            found.setdefault(rule.removeprefix(start), set()).add(float(rate))
    return found


def test_printed_tables_are_the_best_of_the_appendix() -> None:
    """R@1 on CARS: what Tables 2 to 4 print is the best over the rates of Appendix Tables 1 to 3."""
    tables = {
        "G1": printed.highest(printed.DIRECTIONS),
        "G2": printed.highest(printed.PAIRS),
        "G3": printed.highest(printed.TRIPLETS) | printed.WITHOUT_RATES,
    }
    assert tables["G1"] == {"euc": 69.5, "cos": 75.5, "euc-orth": 66.9, "cos-orth": 77.0}
    for name, table in tables.items():
        told = base.get(name).published
        assert all(f"{figure:g}" in told or f"{figure:.1f}" in told for figure in table.values()), name
    every = printed.DIRECTIONS | printed.PAIRS | printed.TRIPLETS
    assert sorted({rate for row in every.values() for rate in row}) == [0.025, 0.05, 0.1, 0.2, 0.4, 0.6, 0.8]


def test_rules_are_trained_at_the_best_printed_rate() -> None:
    directions = rates("G1", "CARS ")
    assert directions == {"euc": {0.05}, "cos": {0.1}, "euc-orth": {0.05}, "cos-orth": {0.1}}
    pairs = rates("G2", "CARS ")
    assert {rule: min(found) for rule, found in pairs.items()} == printed.best(printed.PAIRS)
    assert {rule for rule, found in pairs.items() if 1.6 in found} == {"cos, lin-ms", "cos, sig-ms"}
    triplets = rates("G3", "CARS ")
    assert printed.best(printed.TRIPLETS).items() <= {rule: min(found) for rule, found in triplets.items()}.items()


def test_every_cell_of_the_tables_is_there() -> None:
    assert len(rates("G2", "CARS ")) == 2 * 6
    triplets = rates("G3", "CARS ")
    weights = ("con", "cos", "cos + sc1", "cos + sc2", "cir", "cir + sc1", "cir + sc2")
    assert set(triplets) == {
        *weights, *(f"lin, {weight}" for weight in weights), "cos + sc2 as printed", "cir + sc2 as printed",
    }  # fmt: skip
    for data, usual in (("CARS", 8 * 16), ("CUB", 16 * 8)):
        found = rates("G4", f"{data} ")
        assert set(found) == {"best", "MS", "DR-MS", *(f"best in batches of {n * usual}" for n in (2, 3, 4))}


def test_batches_are_the_papers() -> None:
    for name in (*IDS, "G6"):
        for arm in base.get(name).arms("paper"):
            assert isinstance(arm.job, Training)
            recipe = arm.job.resolved(0)
            batch = (recipe.batch.classes, recipe.batch.per_class)
            if "in batches" not in arm.name:
                assert batch == {"cars": (8, 16), "cub": (16, 8), "inshop": (32, 4)}[recipe.data.name]
            assert recipe.optimizer.plain["weight_decay"] == 0
            assert recipe.data.plain["validation"] == (0.2 if name == "G6" else 0)


def test_the_sign_of_sc2_is_a_reading() -> None:
    masks = {arm.name: arm.job.resolved(0).plain()["loss"]["mask"] for arm in base.get("G3").arms("paper")}
    assert masks["CARS cir + sc2 @ 0.2"] == {"name": "sc2", "printed": False}
    assert masks["CARS cir + sc2 as printed @ 0.2"] == {"name": "sc2", "printed": True}
    readings = [claim.reading for claim in base.get("G3").claims("paper") if claim.text == "CARS sc2 helps cir"]
    assert sorted(readings) == ["sc2 as in Equation 19", "sc2 as in figure 3"]


@pytest.mark.parametrize(("name", "scale"), BOTH)
def test_no_claim_mixes_readings(name: str, scale: Scale) -> None:
    study = base.get(name)
    arms, claims = study.arms(scale), study.claims(scale)
    assert mixed_readings(claims, arms, Results(outcomes={arm.name: [] for arm in arms})) == []
    assert len({(claim.text, claim.reading) for claim in claims}) == len(claims)


def test_sig_ms_is_claimed_to_be_unsteady_on_in_shop_alone() -> None:
    for scale in SCALES:
        limits = {c.text: c.limit for c in base.get("G2").claims(scale) if "higher learning rate" in c.text}
        assert {text for text, limit in limits.items() if not limit} == {
            text for text in limits if text.startswith("In-shop")
        }
        assert len(limits) == (1 if scale == "pocket" else 2)


def test_arms_say_whose_setting_they_run_in() -> None:
    kinds = {name: settings(base.get(name).arms("paper")) for name in (*IDS, "G6")}
    assert {arm: found.kind for arm, found in kinds["G1"].items() if arm.startswith("CARS")} == dict.fromkeys(
        (f"CARS {rule}" for rule in ("euc @ 0.05", "cos @ 0.1", "euc-orth @ 0.05", "cos-orth @ 0.1")), "paper"
    )
    assert {found.kind for arm, found in kinds["G1"].items() if arm.startswith("CUB")} == {"ours"}
    assert {found.kind for found in (*kinds["G2"].values(), *kinds["G3"].values())} == {"paper"}
    assert {found.how for found in kinds["G4"].values()} == {("60 of 80 epochs",)}
    assert {found.kind for found in kinds["G6"].values()} == {"ours"}


def test_a_rate_that_the_split_does_not_prefer_is_told() -> None:
    grid = {0.1: "low", 0.2: "middle", 0.4: "high"}

    def judged(low: float, middle: float, high: float, rate: float = 0.2) -> Verdict:
        figures = {"low": [(0.0, low)], "middle": [(0.0, middle)], "high": [(0.0, high)]}
        return used("t", grid, rate).verdict(outcomes(figures))

    assert judged(50, 60, 55).status == "holds"
    assert judged(50, 60, 55, rate=0.1).status == "does not hold"
    assert judged(50, 55, 60).status == "does not hold"
    assert "beyond 0.4" in judged(50, 55, 60).evidence
    assert used("t", grid, 0.2).verdict(outcomes({"low": [(0.0, 1.0)]})).status == "undecided"


def test_pocket_tables_share_their_trainings() -> None:
    cells = [cell for name in IDS for cell in base.get(name).cells("pocket", (0,))]
    assert len({cell.key for cell in cells}) == 59


def test_a_direction_that_retrieves_better_flips_the_verdict() -> None:
    claim = base.get("G1").claims("pocket")[0]
    low, high = [(60.0, 60.0), (61.0, 61.0), (62.0, 61.0)], [(70.0, 70.0), (70.5, 70.0), (71.5, 70.0)]

    def status(cos: list[tuple[float, float]], euc: list[tuple[float, float]]) -> str:
        worse = [(0.0, 0.0)] * 3
        arms = {"cos @ 0.0025": worse, "cos @ 0.01": cos, "euc @ 0.0025": euc, "euc @ 0.01": worse}
        return claim.verdict(outcomes(arms)).status

    assert status(cos=high, euc=low) == "holds"
    assert status(cos=low, euc=high) == "does not hold"
    assert status(cos=low, euc=low) == "undecided"


def test_the_rate_is_chosen_on_validation_classes_not_by_test() -> None:
    results = outcomes({"low": [(90.0, 50.0), (90.0, 52.0)], "high": [(10.0, 53.0), (10.0, 51.0)]})
    assert best_rate(results, ("low", "high")) == "high"
    ruled = tuned(Ordered(text="t", arms=("rule", "rule")), {"rule": ("low", "high")})
    assert "high" in ruled.verdict(results).evidence
    near = tuned(Near(text="t", arms=("rule", "other"), within=1.5), {"rule": ("low", "high"), "other": ("low",)})
    assert near.verdict(results).status == "does not hold"


def test_a_rate_with_a_missing_seed_is_not_chosen() -> None:
    results = outcomes({"whole": [(1.0, 40.0), (1.0, 40.0)], "part": [(1.0, 90.0)], "none": []})
    assert best_rate(results, ("part", "whole", "none")) == "whole"
    assert best_rate(results, ("none", "neither")) is None
    assert best_rate(results, ("none",)) == "none", "one alone needs no choosing"


@pytest.mark.parametrize(
    ("values", "status"),
    [
        ((1, 1, -1), "holds"),
        ((1, 1, None), "holds"),
        ((1, -1, None), "undecided"),
        ((1, -1, -1), "does not hold"),
    ],
)
def test_most(values: tuple[float | None, ...], status: str) -> None:
    parts = [Beyond(text=str(n), arm=str(n), figure="R@1", above=0.0) for n in range(len(values))]
    known = {str(n): [(float(value), 0.0)] for n, value in enumerate(values) if value is not None}
    assert most("most", parts).verdict(outcomes(known)).status == status


def test_half_is_not_most() -> None:
    parts = [Beyond(text=str(n), arm=str(n), figure="R@1", above=0.0) for n in range(2)]
    assert most("most", parts).verdict(outcomes({"0": [(1.0, 0.0)], "1": [(-1.0, 0.0)]})).status == "does not hold"


def test_steadier_compares_losses_seed_by_seed() -> None:
    claim = steadier("steady", ("a", "a high"), ("b", "b high"), noise=2.0)
    values = {"a": (70.0, 72.0), "a high": (68.0, 71.0), "b": (71.0, 71.0), "b high": (60.0, 59.0)}
    found = claim.verdict(outcomes({arm: [(v, 0.0) for v in seeds] for arm, seeds in values.items()}))
    differences = [(68 - 70) - (60 - 71), (71 - 72) - (59 - 71)]
    assert found.status == "holds"
    assert f"{statistics.fmean(differences):+.3g}" in found.evidence
    swapped = {"a": values["b"], "a high": values["b high"], "b": values["a"], "b high": values["a high"]}
    turned = claim.verdict(outcomes({arm: [(v, 0.0) for v in seeds] for arm, seeds in swapped.items()}))
    assert turned.status == "does not hold"
    assert claim.verdict(outcomes({"a": [(1.0, 0.0)]})).status == "undecided"


def test_corner_flips_the_verdict_of_the_diagrams() -> None:
    claim = base.get("G5").claims("pocket")[1]
    figure = "triplets/test/corner"
    many, few = [(40.0, 1.0), (42.0, 1.0)], [(10.0, 1.0), (11.0, 1.0)]
    assert claim.verdict(outcomes({"euc @ 0.01": many, "cos @ 0.01": few}, figure)).status == "holds"
    assert claim.verdict(outcomes({"euc @ 0.01": few, "cos @ 0.01": many}, figure)).status == "does not hold"
