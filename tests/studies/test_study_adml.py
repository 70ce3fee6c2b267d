"""Studies A1 to A9: arms, figures and verdicts."""

from __future__ import annotations

import functools
import json
from typing import Any

import pytest
from figures_of import mixed_readings

from holdfast import metrics
from holdfast.audit.adml import GOALS as ATTACKS
from holdfast.audit.adml import KEYS
from holdfast.training.recipe import load_recipe
from holdfast_studies import base
from holdfast_studies.catalogue.adml_arms import NORMALISED, PIXELS, TUNED, attacks, audit, series
from holdfast_studies.catalogue.rules import Lower, no_prediction, peak, spearman
from holdfast_studies.claims import Claim
from holdfast_studies.declared import paper
from holdfast_studies.drawing import Bars, Curves, Lines
from holdfast_studies.jobs import SCALES, Arm, AuditMeasure, Probe, Scale, Training
from holdfast_studies.judging import verdicts
from holdfast_studies.results import Outcome, Results, Status
from holdfast_studies.setting import settings

IDS = tuple(f"A{number}" for number in range(1, 10))
BOTH = [(study, scale) for study in IDS for scale in SCALES if (study, scale) != ("A9", "pocket")]
DATA = {"CARS": "cars", "SOP": "sop", "In-shop": "inshop"}
PROBES = {"attack-strength": {"R@1", "drop", "shift"}, "pair-distances": {"mean", "deviation"}}


@functools.cache
def plain() -> set[str]:
    """Figures of every training."""
    vectors = [[1.0, 0.0], [0.0, 1.0], [0.6, 0.8], [0.8, 0.6]]
    return {*metrics.evaluate(vectors, [0, 0, 1, 1], ks=(1,)).values, "log/passes"}


def produced(arm: Arm) -> set[str]:
    """Every figure that an arm has."""
    found = set(plain())
    for measure in arm.job.measures:
        if isinstance(measure, AuditMeasure):
            assert measure.protocol == "adml"
            names = {f"{attack}/{key}" for attack in ATTACKS for key in KEYS}
        else:
            names = PROBES[measure.function]
        found |= {f"{measure.prefix}/{name}" for name in names}
    return found


def results(values: dict[str, list[float] | float], figure: str = "R@1") -> Results:
    """One figure by arm and seed; a single number is the same for three seeds."""
    seeds = {arm: given if isinstance(given, list) else [given] * 3 for arm, given in values.items()}
    return Results(
        outcomes={
            arm: [Outcome(seed=seed, figures={figure: value}) for seed, value in enumerate(given)]
            for arm, given in seeds.items()
        }
    )


def statuses(claims: list[Claim], found: Results) -> list[Status]:
    return [claim.verdict(found).status for claim in claims]


@pytest.mark.parametrize(("name", "scale"), BOTH)
def test_arms_resolve_and_are_called_apart(name: str, scale: Scale) -> None:
    study = base.get(name)
    arms = study.arms(scale)
    assert study.id == name
    assert len({arm.name for arm in arms}) == len(arms)
    assert len({cell.key for cell in study.cells(scale, (0,))}) == len(arms)
    assert study.notes(scale)
    for arm in arms:
        assert isinstance(arm.job, Training)
        usual = {"pocket": "glyphs", "paper": "cub"}[scale]
        assert arm.job.resolved(0).data.name == DATA.get(arm.name.split()[0], usual)
        assert arm.job.resolved(0).data.plain["validation"] == (0 if scale == "paper" else 0.1)


def test_pocket_trainings_keep_to_their_number() -> None:
    jobs = [arm.job for name in IDS for arm in base.get(name).arms("pocket")]
    assert len({job.identity(0) for job in jobs}) == 28


def test_every_arm_on_the_papers_data_is_in_its_setting_or_a_shorter_one() -> None:
    for name in IDS:
        for arm, found in settings(base.get(name).arms("paper")).items():
            ours = "tuned" in arm or arm in ("standard, 28 × 4", "standard, whole photographs")
            expected = ("ours",) if ours else ("paper", "shortened")
            assert found.kind in expected, (name, arm, found)
    main = settings(base.get("A2").arms("paper"))
    assert {main[arm].kind for arm in ("standard", "+T", "+A", "+U", "+A+U", "+A pixels", "+U pixels")} == {"paper"}
    assert {found.kind for name, found in main.items() if name.startswith("CARS ") and "tuned" not in name} == {"paper"}
    assert settings(base.get("A1").arms("paper"))["Triplet-D"].kind == "paper"
    assert {found.kind for found in settings(base.get("A7").arms("paper")).values()} == {"paper"}


def resolved(name: str, arm: str) -> dict[str, Any]:
    found = next(one for one in base.get(name).arms("paper") if one.name == arm)
    assert isinstance(found.job, Training)
    return found.job.resolved(0).plain()


def test_arms_are_what_the_paper_prints() -> None:
    assert resolved("A1", "Triplet-D")["loss"]["miner"]["name"] == "distance"
    assert resolved("A1", "Triplet-D")["loss"]["squared"]
    assert resolved("A2", "+A")["regime"]["budget"]["units"] == "normalized"
    assert resolved("A2", "+A pixels") == load_recipe("adml-a-pixel", {"name": "cub", "root": "cub"}).plain()
    assert resolved("A2", "+T")["regime"]["goal"]["margin"] == 0.2
    assert {resolved("A2", f"CARS {kind}")["regime"]["weight"] for kind in ("+T", "+A", "+U", "+A+U")} == {0.15}
    for data in ("SOP", "In-shop"):
        for kind, goal in (("+T", "triplet"), ("+A", "alignment"), ("+U", "uniformity")):
            regime = resolved("A2", f"{data} {kind}")["regime"]
            assert (regime["weight"], regime["goal"]["name"], regime["goal"]["reference"]) == (0.005, goal, "joint")
            assert [regime["budget"][key] for key in ("eps", "step", "steps")] == [0.01, 0.003, 5]
    assert {resolved("A3", f"{kind} λ {w:g}")["regime"]["weight"] for kind in ("+A", "+U") for w in (0.2, 0.4, 1)} == {
        *(0.2, 0.4, 1)
    }
    assert {resolved("A6", arm.name)["epochs"] for arm in base.get("A6").arms("paper")} == {50}
    assert [resolved("A7", name)["loss"]["s"] for name in ("energy", "energy, s = 0", "energy, s = 1")] == [1, 0, 1]


def test_tuned_arms_share_the_ground_of_the_tuned_recipes() -> None:
    ground = load_recipe("resnet50-ms-tuned").plain()
    for arm in base.get("A2").arms("paper"):
        if arm.name.startswith("tuned"):
            assert arm.seeds == (0, 1, 2)
            found = resolved("A2", arm.name)
            assert {key: found[key] for key in ground if key not in ("data", "regime")} == {
                key: value for key, value in ground.items() if key not in ("data", "regime")
            }
    assert load_recipe("adml-a", settings=[f"{k}={json.dumps(v)}" for k, v in TUNED.items()]) == load_recipe(
        "adml-a-tuned"
    )


@pytest.mark.parametrize(("name", "scale"), BOTH)
def test_claims_compare_arms_of_one_length_and_one_reading(name: str, scale: Scale) -> None:
    study = base.get(name)
    nothing = Results(outcomes={})
    assert mixed_readings(study.claims(scale), study.arms(scale), nothing) == []
    for verdict in verdicts(study, scale, nothing):
        assert "arms of other shares" not in " ".join(verdict.ground.how), verdict.claim
        far = any(name in verdict.claim for name in ("tuned", "SOP", "In-shop"))  # 10 of 100 epochs decide nothing
        judged = "observation" if scale == "pocket" or far else "verdict"
        assert verdict.standing == ("ours" if study.ours else judged), verdict.claim


def test_a_reading_is_of_training_and_of_the_attack() -> None:
    for arm in base.get("A3").arms("paper"):
        assert isinstance(arm.job, Training)
        own = [measure for measure in arm.job.measures if isinstance(measure, AuditMeasure)]
        attacked = {measure.settings["units"] for measure in own if measure.settings}
        if arm.reading:
            assert attacked == {arm.job.resolved(0).regime.plain["budget"]["units"]}


@pytest.mark.parametrize(("name", "scale"), BOTH)
def test_columns_and_drawings_name_figures_that_arms_have(name: str, scale: Scale) -> None:
    study = base.get(name)
    arms = {arm.name: arm for arm in study.arms(scale)}
    known = {key: produced(arm) for key, arm in arms.items()}
    assert set(study.columns(scale).values()) <= set.union(*known.values())
    for drawing in study.plan(scale).drawings:
        if isinstance(drawing, Bars):
            assert all(set(drawing.figures.values()) <= known[arm] for arm in drawing.arms)
        elif isinstance(drawing, Lines):
            assert all(drawing.figure in known[arm] for line in drawing.lines.values() for arm in line.values())
        else:
            assert isinstance(drawing, Curves)
            probes = [m for arm in drawing.arms for m in arms[arm].job.measures if isinstance(m, Probe)]
            assert len(probes) == len(drawing.arms)
            assert all(drawing.series == f"{probe.prefix}/density" for probe in probes)


@pytest.mark.parametrize(("name", "scale"), BOTH)
def test_claims_are_decided_by_the_arms(name: str, scale: Scale) -> None:
    """With every figure of every arm known (and telling arms apart), no claim lacks what it reads."""
    study = base.get(name)
    found = Results(
        outcomes={
            arm.name: [
                Outcome(seed=seed, figures={key: 10.0 * place + rank for rank, key in enumerate(sorted(produced(arm)))})
                for seed in range(3)
            ]
            for place, arm in enumerate(study.arms(scale))
        }
    )
    for verdict in (claim.verdict(found) for claim in study.claims(scale)):
        assert "not run" not in verdict.evidence
        assert "were run" not in verdict.evidence
    nothing = Results(outcomes={})
    assert set(statuses(study.claims(scale), nothing)) == {"undecided"}


def test_one_figure_below_another() -> None:
    claim = Lower(text="", arm="a", figure="x", than="y", noise=1.0, least=5.0)
    for gap, expected in ((9.0, "holds"), (1.0, "does not hold")):
        outcomes = [Outcome(seed=s, figures={"x": 10.0 + s, "y": 10.0 + s + gap + 0.1 * s}) for s in range(3)]
        assert claim.verdict(Results(outcomes={"a": outcomes})).status == expected


@pytest.mark.parametrize("reading", attacks("pocket"))
def test_a1_flips_in_one_reading_alone(reading: str) -> None:
    figures = {f"{audit.prefix}/{goal}/R@1": 30.0 for audit in attacks("pocket").values() for goal in ATTACKS}
    prefix = attacks("pocket")[reading].prefix
    strong = figures | {f"{prefix}/alignment/R@1": 9.0, f"{prefix}/uniformity/R@1": 13.0}
    found = [Outcome(seed=seed, figures=strong) for seed in range(3)]
    claims = base.get("A1").claims("pocket")
    got = dict(
        zip((claim.reading for claim in claims), statuses(claims, Results(outcomes={"standard": found})), strict=True)
    )
    assert got == dict.fromkeys(attacks("pocket"), "does not hold") | {reading: "holds"}


def test_a2_flips() -> None:
    paper = {"standard": 62.7, "+T": 64.4, "+A": 66.0, "+U": 65.5, "+A+U": 64.2}
    paper |= {"+A normalised": 66.0, "+U normalised": 65.5}
    claims = {f"{claim.text}, {claim.reading}": claim for claim in base.get("A2").claims("pocket")}
    assert len(claims) == 7

    def failing(**changed: list[float] | float) -> set[str]:
        found = results({**paper, **{key.replace("_", " "): value for key, value in changed.items()}})
        return {text for text, claim in claims.items() if claim.verdict(found).status != "holds"}

    assert failing() == set()
    assert failing(**{"+U": 62.0}) == {
        f"ADML+U beats standard training (glyphs), {PIXELS}", f"ADML+U beats ADML+T training (glyphs), {PIXELS}"
    }  # fmt: skip
    assert len(failing(**{"+A+U": 60.0})) == 1
    assert failing(**{"+A normalised": 60.0}) == {f"ADML+A beats standard training (glyphs), {NORMALISED}"}
    one = base.get("A2").claims("pocket")[-1].verdict(results({arm: [value] for arm, value in paper.items()}))
    assert one.status == "holds"  # the tolerance is wider than the noise of one seed


def test_a2_on_the_papers_ground_needs_two_arms_for_a_verdict() -> None:
    found = results({"standard": [58.9], "+A": [62.0], "tuned standard": 62.7, "tuned +A": 64.8})
    judged = {(v.claim, v.reading): v for v in verdicts(base.get("A2"), "paper", found)}
    verdict = judged["ADML+A beats standard training (CUB)", NORMALISED]
    assert (verdict.words, verdict.decided) == ("holds (one seed)", True)
    assert judged["ADML+A beats standard training (CUB, tuned)", NORMALISED].words == "observation"
    assert judged["ADML+U beats standard training (CUB)", NORMALISED].words == "not all run"
    assert judged["ADML+A beats standard training (CUB)", PIXELS].words == "not all run"


def test_a3_flips() -> None:
    *orders, grows = base.get("A3").claims("pocket")
    assert [claim.reading for claim in orders] == [PIXELS, f"{PIXELS}, batches 28 × 4", f"{PIXELS}, single queries"]
    paper = {"standard": 8.9, "+T": 11.6, "+U": 15.1, "+A": 17.4, "+A λ 0.3": 21.0, "+A λ 1": 25.9}
    for claim in orders:
        figure = f"{attacks('pocket')[claim.reading].prefix}/alignment/R@1"
        found = results(dict(paper), figure)
        assert statuses(orders, found) == ["holds" if claim is one else "undecided" for one in orders]
        assert claim.verdict(results({**paper, "+T": 20.0}, figure)).status == "does not hold"
    usual = f"{attacks('pocket')[PIXELS].prefix}/alignment/R@1"
    assert grows.verdict(results(dict(paper), usual)).status == "holds"
    assert grows.verdict(results({**paper, "+A λ 1": 10.0}, usual)).status == "does not hold"


def test_a3_grows_as_printed_at_paper_scale() -> None:
    study = base.get("A3")
    usual = f"{attacks('paper')[NORMALISED].prefix}/alignment/R@1"
    grows = {claim.text[-2:]: claim for claim in study.claims("paper") if "grows" in claim.text}
    assert set(grows) == {"+A", "+U"}
    for kind, claim in grows.items():
        values = [8.9, 19.2, 22.5, 25.9]
        names = [name for weight, name in series("paper", kind).items() if weight != 0.1]
        assert claim.verdict(results(dict(zip(names, values, strict=True)), usual)).status == "holds"
        assert claim.verdict(results(dict(zip(names, values[::-1], strict=True)), usual)).status == "does not hold"


def test_a9_holds_within_four_points_of_the_script() -> None:
    study = base.get("A9")
    figures = {"R@1": 58.9}
    for row in paper("adml")["words"]["script"]:
        prefix = audit(row["reading"], row["batches"]).prefix
        figures |= {f"{prefix}/{name}/R@1": row[name] + 3.9 for name in ("alignment", "uniformity", "triplet")}

    def judged(found: dict[str, float]) -> list[Status]:
        return statuses(study.claims("paper"), Results(outcomes={"standard, half": [Outcome(seed=0, figures=found)]}))

    assert judged(figures) == ["holds"] * 7
    assert judged({**figures, "adml-28x4-normalized/uniformity/R@1": 32.0}).count("does not hold") == 1
    assert judged({"R@1": 50.0}) == ["does not hold", *["undecided"] * 6]


def test_a4_needs_a_peak_inside() -> None:
    arms = tuple(series("pocket", "+A").values())
    claim = peak("a peak", arms, noise=1.0)
    shapes = {"holds": [60, 61, 63, 62, 58], "does not hold": [60, 61, 62, 63, 64]}
    for expected, values in shapes.items():
        assert claim.verdict(results(dict(zip(arms, map(float, values), strict=True)))).status == expected
    noisy = {arm: [60.0, 64.0, 58.0] if arm == "+A" else 60.0 for arm in arms}
    assert claim.verdict(results(noisy)).status == "undecided"


def test_a5_flips_for_one_loss_alone() -> None:
    losses = {"triplet": 62.3, "margin": 62.5, "info-nce": 61.4}
    paper = {"standard": 62.7, "+A": 66.1} | losses | {f"{loss} +A": value + 3 for loss, value in losses.items()}
    claims = base.get("A5").claims("pocket")
    assert statuses(claims, results(dict(paper))) == ["holds"] * 4
    worse = statuses(claims, results({**paper, "margin +A": 50.0}))
    assert worse == ["holds", "does not hold", "holds", "holds"]


def test_a6_flips() -> None:
    claims = base.get("A6").claims("pocket")
    names = [f"{loss}, positive only" for loss in ("linear", "triplet", "margin", "multi-similarity")]
    paper = dict(zip(names, (3.2e-3, 3.2e-3, 8.2e-2, 3.3e-3), strict=True))
    assert statuses(claims, results(dict(paper), "distance_all")) == ["holds"] * 4
    assert statuses(claims, results({**paper, names[2]: 0.9}, "distance_all"))[2] == "does not hold"


def test_a7_flips() -> None:
    claims = base.get("A7").claims("pocket")
    names = [f"{loss}, negative only" for loss in ("linear", "triplet", "margin", "multi-similarity")]
    paper = dict(zip([*names, "energy", "before"], (0.254, 0.150, 0.147, 0.151, 0.142, 0.594), strict=True))
    assert statuses(claims, results(dict(paper), "gaussian_energy")) == ["holds"] * 7
    worse = statuses(claims, results({**paper, names[3]: 0.3}, "gaussian_energy"))
    assert [place for place, status in enumerate(worse) if status == "does not hold"] == [2, 6]
    assert statuses(claims, results({**paper, names[0]: 0.143}, "gaussian_energy"))[3] == "does not hold"


def test_a8_follows_the_rank_correlation() -> None:
    arms = [f"arm {number}" for number in range(16)]
    claim = no_prediction("no prediction", {arm: f"{arm}/drop" for arm in arms}, "start")

    def status(gains: list[float]) -> Status:
        start = {"R@1": 50.0} | {f"{arm}/drop": float(place) for place, arm in enumerate(arms)}
        outcomes = {arm: [Outcome(seed=0, figures={"R@1": 50.0 + gain})] for arm, gain in zip(arms, gains, strict=True)}
        return claim.verdict(Results(outcomes={"start": [Outcome(seed=0, figures=start)], **outcomes})).status

    rising = [float(place) for place in range(15)] + [13.5]
    assert status(rising) == "does not hold"
    assert status(rising[::-1]) == "does not hold"  # hard attacks that help less are a prediction too
    assert status([8, 1, 12, 5, 16, 3, 10, 7, 14, 2, 11, 6, 15, 4, 0, 9]) == "holds"
    assert status([5, 1, 9, 2, 12, 8, 3, 15, 10, 4, 13, 6, 7, 14, 0, 11]) == "undecided"
    assert status([1.0] * 16) == "undecided"


def test_rank_correlation_against_scipy() -> None:
    stats = pytest.importorskip("scipy.stats")
    one, other = [3.0, 1.0, 2.0, 2.0, 5.0, 9.0], [1.0, 4.0, 4.0, 4.0, 2.0, 0.5]
    assert spearman(one, other) == pytest.approx(stats.spearmanr(one, other).statistic)
    assert spearman([1.0, 1.0], [1.0, 2.0]) is None
