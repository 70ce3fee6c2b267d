"""Whose setting an arm runs in, and what may be said of a claim on it."""

from __future__ import annotations

from typing import Any

import pytest
from figures_of import arms_read, mixed_readings

from holdfast.training import recipe_files
from holdfast.training.recipe import load_recipe
from holdfast.training.recipe_files import About
from holdfast_studies import base
from holdfast_studies.claims import All, Beyond, Claim, Judged, Near, Ordered, Verdict, ruled
from holdfast_studies.jobs import SCALES, Arm, AuditMeasure, Computation, Probe, Scale, Training
from holdfast_studies.judging import by_reading, counted, judged
from holdfast_studies.results import Outcome, Results
from holdfast_studies.setting import UNCOMPARED, Setting, joint, setting

ABOUT = {
    "adml-a": About(summary="", kind="paper", paper="ADML", where="Table 2", data=("cub", "cars")),
    "min-max": About(summary="", kind="tuned", paper="ADML", where="Table 2", data=("cub",), tuned="adml-a"),
    "free-hm": About(summary="", kind="ours"),
}


@pytest.fixture(autouse=True)
def heads(monkeypatch: pytest.MonkeyPatch) -> None:
    """Heads of recipes that no change of a shipped one moves."""
    shipped = recipe_files.about
    monkeypatch.setattr("holdfast_studies.setting.about", lambda name: ABOUT.get(name) or shipped(name))


def training(**more: Any) -> Training:
    return Training(**{"recipe": "adml-a", "data": "cub", **more})


EPOCHS = load_recipe("adml-a").epochs
DIM = load_recipe("adml-a").model.dim
BACKBONE = load_recipe("adml-a").model.backbone


@pytest.mark.parametrize(
    ("job", "kind", "how"),
    [
        (training(), "paper", ()),
        (training(data="cars", row={"regime.weight": 0.15}), "paper", ()),
        (training(settings={"evaluate_every": 1, "cache": "none", "log_every": 3, "seed": 4}), "paper", ()),
        (training(settings={"epochs": 7}), "shortened", (f"7 of {EPOCHS} epochs",)),
        (training(measures=(AuditMeasure(limit=1000),)), "shortened", ("ers audit of 1,000 images",)),
        (training(settings={"epochs": EPOCHS + 1}), "ours", (f"{EPOCHS + 1} epochs for {EPOCHS}",)),
        (training(settings={"regime.weight": 0.15}), "ours", ("regime.weight 0.15 for 0.1",)),
        (
            training(row={"regime.weight": 0.15}, settings={"regime.weight": 0.1}),
            "ours",
            ("regime.weight 0.1 for 0.15",),
        ),
        (training(settings={"model.dim": 512}), "ours", (f"model.dim 512 for {DIM}",)),
        (training(data="sop"), "ours", ("data sop for cub or cars",)),
        (training(data={"name": "cub", "train_fraction": 0.5}), "ours", ("data.train_fraction 0.5 for 1",)),
        (training(data={"name": "cub", "train_fraction": 0.5}, row={"data.train_fraction": 0.5}), "paper", ()),
        (
            training(settings={"model.backbone": "torchvision:mobilenet_v2", "epochs": 7}),
            "ours",
            (f"model.backbone torchvision:mobilenet_v2 for {BACKBONE}", f"7 of {EPOCHS} epochs"),
        ),
        (training(differs=("one judge",)), "ours", ("one judge",)),
        (training(recipe="free-hm"), "ours", ("the recipe free-hm is of no paper",)),
        (training(recipe="pocket", data="glyphs"), "pocket", ()),
        (Computation(measure=Probe(function="p")), "paper", ()),
        (Computation(measure=Probe(function="p"), differs=("MobileNetV2",)), "ours", ("MobileNetV2",)),
        (Computation(measure=Probe(function="p"), data="cub"), "ours", (UNCOMPARED,)),
        (Computation(measure=Probe(function="p"), data="cub", differs=()), "paper", ()),
        (
            training(measures=(AuditMeasure(limit=10), AuditMeasure(mode="published", limit=10))),
            "shortened",
            ("ers audit of 10 images",),
        ),
    ],
)
def test_the_setting_is_computed_from_the_recipe(job: Any, kind: str, how: tuple[str, ...]) -> None:
    found = setting(job)
    assert (found.kind, found.how) == (kind, how)


def test_a_tuned_recipe_is_ours_and_names_what_it_changed() -> None:
    found = setting(training(recipe="min-max"))
    assert found.kind == "ours"
    assert any(text.startswith("regime min-max for adml") for text in found.how)
    assert not any(text.startswith("regime.") for text in found.how), "a block of another name is one difference"


def test_a_comparison_rests_on_its_weakest_arm() -> None:
    paper, short, ours = (
        Setting(kind="paper"),
        Setting(kind="shortened", how=("7 of 100 epochs",)),
        Setting(kind="ours", how=("model.dim 512 for 128",)),
    )
    assert joint([paper, short]) == short
    assert joint([short, ours, paper]) == ours
    assert joint([]) == paper


def test_arms_that_were_not_treated_alike_decide_nothing() -> None:
    whole, half, other = (training(settings={"epochs": epochs}) for epochs in (EPOCHS, EPOCHS // 2, EPOCHS // 2))
    assert joint(map(setting, (half, other))).kind == "shortened"
    assert joint(map(setting, (whole, half))).kind == "ours"


ARMS = ("a", "b")
ABOVE = Ordered(text="a > b", arms=ARMS, noise=0.5)
HIGH = Beyond(text="a is high", arm="a", figure="R@1", above=10.0)
CLAIMS: list[Claim] = [
    ABOVE,
    Near(text="a is b", arms=ARMS, within=2.0),
    All(text="both", parts=(ABOVE, ABOVE)),
    Judged(text="by a rule", rule=lambda results: ("holds", str(results.mean("a", "R@1") or results.mean("b", "R@1")))),
    ruled(ABOVE, lambda results: ("holds", ABOVE.verdict(results).evidence)),
]


def results(a: float = 60.0, b: float = 50.0) -> Results:
    return Results(outcomes={name: [Outcome(seed=0, figures={"R@1": x})] for name, x in (("a", a), ("b", b))})


def grounds(kind: Any) -> dict[str, Setting]:
    return {"a": Setting(kind="paper"), "b": Setting(kind=kind, how=("a few images",))}


@pytest.mark.parametrize("claim", CLAIMS, ids=lambda claim: claim.text)
def test_the_arms_of_a_claim_are_those_it_looks_at(claim: Claim) -> None:
    read = arms_read(claim, results())
    assert read == ({"a"} if claim.text == "by a rule" else {"a", "b"})


@pytest.mark.parametrize(
    ("kind", "order", "level"),
    [
        ("paper", "holds (one seed)", "holds (one seed)"),
        ("shortened", "holds (shortened, one seed)", "holds (one seed)"),
        ("ours", "observation", "holds (one seed)"),
        ("pocket", "seen at pocket scale", "holds (one seed)"),
    ],
)
def test_a_verdict_needs_the_papers_setting_or_not_much_less_of_it(kind: Any, order: str, level: str) -> None:
    assert judged(ABOVE, results(), grounds(kind)).words == order
    assert judged(HIGH, results(), grounds(kind)).words == level, "it looks at the other arm alone"
    both = All(text="both", parts=(ABOVE, HIGH))
    found = judged(both, results(), grounds(kind))
    assert found.decided == (kind in ("paper", "shortened"))
    assert ("[holds]" in found.evidence) == found.decided


def test_a_verdict_says_how_much_of_the_training_there_was() -> None:
    def told(length: float) -> str:
        return judged(ABOVE, results(), {arm: Setting(kind="shortened", length=length) for arm in ("a", "b")}).words

    assert told(0.48) == "holds (48 % of the length, one seed)"
    assert told(0.39) == "observation", "an early lead need not last"


def test_a_claim_of_ours_has_no_papers_length() -> None:
    short = {arm: Setting(kind="ours", length=0.2) for arm in ("a", "b")}
    assert judged(ABOVE, results(), short, ours=True).words == "holds (one seed)"


def test_an_observation_refutes_nothing() -> None:
    found = judged(ABOVE, results(a=40.0), grounds("ours"))
    assert (found.words, found.decided) == ("observation", False)
    assert "-10" in found.evidence, "the figures are shown"
    assert judged(ABOVE, results(a=40.0), grounds("paper")).words == "does not hold (one seed)"
    assert judged(ABOVE, results(a=40.0), grounds("pocket")).words == "not seen at pocket scale"


@pytest.mark.parametrize(("a", "words"), [(60.0, "limit: reaches so far"), (40.0, "limit: ends before")])
def test_a_limit_refutes_nothing(a: float, words: str) -> None:
    claim = Ordered(text="a > b elsewhere", arms=ARMS, noise=0.5, limit=True, reading="one of two")
    found = judged(claim, results(a=a), grounds("paper"))
    assert (found.words, found.decided, found.reading) == (words, False, "one of two")


@pytest.mark.parametrize(("kind", "mark"), [("ours", ""), ("pocket", "pocket scale, ")])
def test_a_claim_of_no_paper_is_judged_in_the_setting_that_it_is_about(kind: Any, mark: str) -> None:
    found = judged(ABOVE, results(a=40.0), grounds(kind), ours=True)
    assert (found.words, found.decided) == (f"does not hold ({mark}one seed)", False)


def test_a_rule_around_a_claim_keeps_what_it_is() -> None:
    claim = Beyond(text="high", arm="a", figure="R@1", above=1.0, reading="pixels", limit=True)
    around = ruled(claim, lambda _: ("holds", ""))
    assert (around.reading, around.limit) == ("pixels", True)


def test_a_claim_on_arms_of_another_reading_is_found() -> None:
    job = Computation(measure=Probe(function="p"))
    arms = [Arm(name="a", job=job, reading="pixels"), Arm(name="b", job=job)]
    claims = [Ordered(text="a > b", arms=ARMS, reading=reading) for reading in ("pixels", "normalised", "")]
    assert mixed_readings(claims[:1], arms, results()) == []
    assert mixed_readings(claims[1:], arms, results()) == ["a > b", "a > b"]


def test_claims_are_counted_by_ground_and_reading() -> None:
    def found(kind: Any, reading: str = "", **more: Any) -> Verdict:
        claim = Ordered(text="a > b", arms=ARMS, noise=0.5, reading=reading, **more)
        return judged(claim, results(a=40.0 if reading == "pixels" else 60.0), grounds(kind))

    waiting = judged(ABOVE, Results(outcomes={}), grounds("paper"))
    every = [
        *(found("paper"), found("shortened", "pixels"), found("shortened", "normalised"), found("ours", "pixels")),
        *(found("pocket"), found("paper", limit=True), waiting, judged(ABOVE, results(), grounds("ours"), ours=True)),
    ]
    assert counted(every) == (
        "6 claims of the papers: 3 decided on the papers' ground (2 hold, 1 do not), 0 undecided there, "
        "2 observations in other settings, 1 not all run. Besides, 1 limit of claims and 1 claim of ours."
    )
    table = by_reading(every)
    assert table is not None
    assert table[1] == [
        ["none needed", "1", "0", "0", "1", "1"],
        ["pixels", "0", "1", "0", "1", "0"],
        ["normalised", "1", "0", "0", "0", "0"],
    ]
    assert by_reading([found("paper", limit=True)]) is None


@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("name", base.names())
def test_no_claim_mixes_readings_and_every_arm_has_a_setting(name: str, scale: Scale) -> None:
    study = base.get(name)
    arms = study.arms(scale)
    everything = Results(outcomes={arm.name: [] for arm in arms})
    assert mixed_readings(study.claims(scale), arms, everything) == []
    assert all(setting(arm.job).short for arm in arms)
