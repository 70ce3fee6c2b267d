"""Studies G1 to G5: arms, figures and verdicts."""

from __future__ import annotations

import statistics

import pytest
import torch
from figures_of import trained, undecided_before_decided_after

from holdfast.gradients.explanation import Diagram
from holdfast.studies import base
from holdfast.studies.catalogue.direct_gradients_claims import VALIDATION, best_rate, most, steadier, tuned
from holdfast.studies.claims import Beyond, Near, Ordered
from holdfast.studies.drawings import Curves, Lines
from holdfast.studies.jobs import SCALES, Arm, Probe, Scale, Training
from holdfast.studies.measures.triplet_diagram import TripletDiagram
from holdfast.studies.results import Outcome, Results

IDS = ("G1", "G2", "G3", "G4", "G5")
DATA = ("CUB", "CARS")
BOTH = [(study, scale) for study in IDS for scale in SCALES]


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
        probes = {m.prefix for m in arm.job.measures if isinstance(m, Probe) and m.function == "triplet-diagram"}
        found.append(
            trained(arm) | {f"{p}/{split}/{key}" for p in probes for split in ("train", "test") for key in shares}
        )
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
    for drawing in study.drawings(scale):
        if isinstance(drawing, Lines):
            assert {arm for line in drawing.lines.values() for arm in line.values()} <= known
            assert drawing.figure in figures
        else:
            assert isinstance(drawing, Curves)
            assert set(drawing.arms) <= known
            assert drawing.series in ("triplets/train", "triplets/test")


@pytest.mark.parametrize(("name", "scale"), BOTH)
def test_claims_are_undecided_before_and_decided_after_all_arms_have_run(name: str, scale: Scale) -> None:
    study = base.get(name)
    figures = produced(study, scale)

    def everything(arms: list[Arm]) -> Results:
        """No two arms alike, and each the same in every seed: every difference is known exactly."""
        return Results(
            outcomes={
                arm.name: [Outcome(seed=seed, figures=dict.fromkeys(figures, 50.0 + 5 * place)) for seed in range(3)]
                for place, arm in enumerate(arms)
            }
        )

    undecided_before_decided_after(study, scale, everything)


@pytest.mark.parametrize("name", IDS)
def test_rates_can_be_chosen_at_paper_size(name: str) -> None:
    """Classes are kept to choose on, and the rates are those of the paper, 0.2 among them."""
    arms = base.get(name).arms("paper")
    assert all(VALIDATION in trained(arm) for arm in arms)
    rates = {data: {float(arm.name.rsplit("@", 1)[1]) for arm in arms if arm.name.startswith(data)} for data in DATA}
    assert {0.1, 0.2, 0.4} <= rates["CUB"]
    assert {0.05, 0.1, 0.2, 0.4} <= rates["CARS"]


def test_pocket_tables_share_their_trainings() -> None:
    cells = [cell for name in IDS for cell in base.get(name).cells("pocket", (0,))]
    assert len({cell.key for cell in cells}) == 40


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
    assert best_rate(results, ("none",)) is None


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
