"""Records of the leaderboard."""

from __future__ import annotations

import copy
import dataclasses
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from holdfast.audit import ers_score
from holdfast.robustness import ROBUST
from holdfast_studies import leaderboard
from holdfast_studies.base import Plan, Study
from holdfast_studies.jobs import SCALES, Arm, AuditMeasure, Computation, Probe, Training
from holdfast_studies.judging import trimmed
from holdfast_studies.leaderboard import EPS, from_results, joined, page_text, validate
from holdfast_studies.results import Outcome, Results

RESULTS = Path(__file__).resolve().parents[2] / "docs" / "results"
TERMS = {
    "CA+": 40.0,
    "CA-": 5.0,
    "QA+": 42.0,
    "QA-": 3.0,
    "TMA": 0.3,
    "ES:D": 0.5,
    "ES:R": 20.0,
    "LTM": 22.0,
    "GTM": 25.0,
    "GTT": 30.0,
}
SCORED = {**TERMS, "ERS": ers_score(TERMS)}
BOTH = (AuditMeasure(limit=300), AuditMeasure(mode="published", limit=300))


ARMS = [
    Arm("both", Training("pocket", measures=BOTH)),
    Arm("one", Training("pocket", settings={"epochs": 3}, measures=BOTH[:1])),
    Arm("val", Training("pocket", measures=(AuditMeasure(split="val"),))),
    Arm("none", Training("pocket", settings={"epochs": 4}, measures=BOTH)),
    Arm("fell", Training("pocket", settings={"epochs": 5}, measures=BOTH)),
    Arm("computed", Computation(measure=Probe("p"))),
]
PAIR = Study(id="X9", title="Trainings and a computation", source="-", published="-", plan=lambda _: Plan(ARMS, []))


def outcome(seed: int, shift: float, stopped: str | None = None) -> Outcome:
    terms = {key: value + (shift if key in ("LTM", "GTM") else 0) for key, value in TERMS.items()}
    scored = {**terms, "ERS": ers_score(terms)}
    figures: dict[str, float | None] = {"R@1": 50 + shift, "NMI": 60.0, "log/passes": 3.0, "log/seconds": 20.0}
    figures |= {f"ers-{mode}/{key}": value for mode in ("fixed", "published") for key, value in scored.items()}
    place = {"device": "CPU", "versions": {"holdfast": "0.1.0"}}
    return Outcome(seed=seed, figures=figures, place=place, stopped=stopped)


def records() -> list[dict[str, Any]]:
    seeds = [outcome(0, 0.0), outcome(1, 2.0)]
    found = {
        "both": seeds,
        "one": seeds[:1],
        "val": seeds,
        "none": [],
        "fell": [outcome(0, 0.0, "fell")],
        "computed": seeds,
    }
    return from_results(PAIR, "pocket", Results(outcomes=found))


def test_robust_r1_of_an_audit_comes_through_what_raw_files_keep() -> None:
    seeds = [dataclasses.replace(outcome(0, 0.0), figures={**outcome(0, 0.0).figures, f"ers-fixed/{ROBUST}": 7.0})]
    kept = trimmed(PAIR, "pocket", Results(outcomes={"both": seeds}))
    (both,) = from_results(PAIR, "pocket", kept)
    assert both["robust"] == {"R@1": 7.0, "eps": EPS, "norm": "linf"}


def test_records_of_a_study_are_sound_and_averaged_over_seeds() -> None:
    both, one = records()
    assert [validate(record) for record in (both, one)] == [[], []]
    assert both["clean"] == {"R@1": 51.0, "NMI": 60.0}
    assert both["ers"]["fixed"]["LTM"] == 23.0
    assert both["ers"]["limit"] == 300
    assert (both["seeds"], both["method"], both["data"], both["epochs"]) == ([0, 1], "standard", "glyphs", 24)
    assert one["epochs"] == 3
    assert one["recipe_digest"] == Training(recipe="pocket", settings={"epochs": 3}).resolved(0).digest()
    assert json.loads(json.dumps(both)) == both


def record_of(*outcomes: Outcome) -> dict[str, Any]:
    (record,) = from_results(PAIR, "pocket", Results(outcomes={"both": list(outcomes)}))
    assert validate(record) == []
    return record


def timed(found: Outcome, device: str, seconds: float) -> Outcome:
    figures = {**found.figures, "log/seconds": seconds}
    return dataclasses.replace(found, figures=figures, place={**found.place, "device": device})


def test_time_and_hardware_are_of_one_device() -> None:
    cpu, first, second = (outcome(n, 2.0 * n) for n in range(3))
    mixed = [timed(cpu, "CPU", 500.0), timed(first, "GPU", 40.0), timed(second, "GPU", 50.0)]
    record = record_of(*mixed)
    assert record["cost"] == {"passes": 3.0, "seconds": 45.0, "hardware": "GPU"}
    assert (record["seeds"], record["clean"]["R@1"]) == ([0, 1, 2], 52.0)
    assert record_of(*mixed[:2])["cost"] == {"passes": 3.0, "seconds": 500.0, "hardware": "CPU"}


def without(found: Outcome, prefix: str) -> Outcome:
    figures = {key: value for key, value in found.figures.items() if not key.startswith(prefix)}
    return dataclasses.replace(found, figures=figures)


def test_a_record_is_of_the_seeds_that_have_ers() -> None:
    first, second = timed(outcome(0, 0.0), "CPU", 20.0), timed(outcome(1, 2.0), "CPU", 30.0)
    record = record_of(without(first, "ers-fixed/"), second)
    assert record["seeds"] == [1]
    assert (record["clean"]["R@1"], record["ers"]["published"]["LTM"]) == (52.0, 24.0)
    assert record["cost"]["seconds"] == 30.0
    nobody = {"both": [without(first, "ers-fixed/")]}
    assert from_results(PAIR, "pocket", Results(outcomes=nobody)) == []


def test_the_published_form_is_of_all_seeds_or_left_out() -> None:
    first, second = outcome(0, 0.0), outcome(1, 2.0)
    record = record_of(without(first, "ers-published/"), second)
    assert (record["seeds"], record["ers"]["published"]) == ([0, 1], None)


def test_what_others_submitted_is_kept_and_ours_replaced() -> None:
    ours = records()
    theirs = {**copy.deepcopy(ours[0]), "submitted_by": "somebody", "name": "theirs"}
    stale = {**copy.deepcopy(ours[0]), "name": "stale", "recipe_digest": "0" * 12}
    kept = joined([stale, theirs], [*ours, {**ours[0], "name": "again"}])
    assert {record["name"] for record in kept} == {"theirs", "both (X9)", "one (X9)"}
    assert joined(kept, ours) == kept
    scores = [record["ers"]["fixed"]["ERS"] for record in kept]
    assert scores == sorted(scores, reverse=True)


def test_the_page_names_every_key_of_a_record() -> None:
    text = page_text([])
    assert [key for key in leaderboard.FIELDS if f"`{key}`" not in text] == []


def test_the_page_lists_every_record() -> None:
    text = page_text(records())
    rows = [line for line in text.splitlines() if line.startswith("| ")]
    assert len(rows) == 2 + 2
    cells = [cell.strip() for cell in next(row for row in rows if "both (X9)" in row).split("|")]
    headings = [cell.strip() for cell in rows[0].split("|")]
    assert [cells[headings.index(name)] for name in ("epochs", "seeds", "attacked")] == ["24", "2", "300"]
    assert f"| {SCORED['ERS']:.1f} |" in text


def at(path: str, value: Any) -> Callable[[dict[str, Any]], None]:
    def change(record: dict[str, Any]) -> None:
        *outer, last = path.split("/")
        for key in outer:
            record = record[key]
        record[last] = value

    return change


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (at("schema", 2), "schema: expected 1"),
        (at("name", ""), "name: expected one line of text"),
        (at("method", None), "method: expected one line"),
        (at("colour", "red"), "colour: unknown key"),
        (lambda r: r.pop("cost"), "cost: missing"),
        (at("dim", 0), "dim: expected a whole number"),
        (at("epochs", True), "epochs: expected a whole number"),
        (at("seeds", [0, 0]), "seeds: expected a list of different"),
        (at("seeds", []), "seeds: expected a list"),
        (at("clean", {}), "clean: expected an object with R@1"),
        (at("clean/R@1", 101), "clean: R@1 must be a number from 0 to 100, got 101"),
        (at("clean/R@1", "50"), "got '50'"),
        (at("ers/fixed", None), "ers: fixed: expected exactly CA+"),
        (at("ers/fixed/ERS", SCORED["ERS"] + 1), "its ten figures make"),
        (at("ers/published/TMA", 2.0), "ers: published: TMA must be a number from -1 to 1"),
        (at("ers/fixed/GTT", float("nan")), "GTT must be a number"),
        (at("ers/limit", 0), "ers: limit: expected a whole number"),
        (at("ers/other", 1), "ers: expected fixed, published and limit"),
        (at("robust", {"R@1": 3.0}), "robust: expected R@1, eps and norm"),
        (at("robust", {"R@1": 101, "eps": 0.03, "norm": "linf"}), "robust: R@1 must be a number from 0 to 100"),
        (at("natural", {"mean": 3.0}), "natural: expected R@1"),
        (at("cost/passes", 0), "cost: passes must be a number"),
        (at("cost/hardware", 5), "cost: expected one line of text"),
    ],
)
def test_what_is_wrong_is_named(change: Callable[[dict[str, Any]], None], problem: str) -> None:
    record = copy.deepcopy(records()[0])
    change(record)
    assert [found for found in validate(record) if problem in found], validate(record)


def test_robust_recall_is_listed_first_and_records_of_before_are_kept() -> None:
    seeds = [outcome(0, 0.0), outcome(1, 2.0)]
    more = [{"ers-fixed/robust R@1": robust, "natural-fixed/natural R@1": 40.0} for robust in (2.0, 4.0)]
    record = record_of(*[dataclasses.replace(o, figures={**o.figures, **m}) for o, m in zip(seeds, more, strict=True)])
    assert validate(record) == []
    assert record["robust"] == {"R@1": 3.0, "eps": 8 / 255, "norm": "linf"}
    before = {k: v for k, v in record.items() if k not in ("robust", "natural")}
    before |= {"name": "before", "submitted_by": "somebody"}
    before["ers"] = {**before["ers"], "fixed": {**SCORED}}
    assert validate(before) == []
    other = {**record, "name": "other", "submitted_by": "else", "robust": {"R@1": 9.0, "eps": 4 / 255, "norm": "linf"}}
    listed = joined([before, other], [record])
    assert [r["name"] for r in listed] == ["other", record["name"], "before"]
    rows = [line for line in page_text(listed).splitlines() if line.startswith("| ")]
    assert "| 9.0 (4/255) |" in rows[2]
    assert "| 3.0 |" in rows[3]
    assert all("| 40.0 |" in row for row in rows[2:4])
    assert rows[4].count("| - |") == 2


def test_optional_parts_may_be_absent() -> None:
    record = copy.deepcopy(records()[0])
    record["ers"]["published"] = record["ers"]["limit"] = record["dim"] = record["weights"] = None
    assert validate(record) == []
    text = page_text([record])
    assert "published form |" not in text, "a column that nobody fills"
    assert "| all |" in text
    assert validate([record]) == ["a record is a JSON object"]


def test_committed_records_are_sound_and_the_page_is_made_of_them() -> None:
    committed = json.loads((RESULTS / "leaderboard.json").read_text("utf-8"))
    assert [problem for record in committed for problem in validate(record)] == []
    assert page_text(committed) == (RESULTS / "leaderboard.md").read_text("utf-8"), "run `make results`"


@pytest.mark.parametrize("name", leaderboard.STUDIES)
def test_listed_studies_have_models_that_can_be_listed(name: str) -> None:
    from holdfast_studies import base

    found = 0
    for scale in SCALES:
        arms = base.get(name).arms(scale)
        found += len(from_results(base.get(name), scale, Results(outcomes={arm.name: [scored(arm)] for arm in arms})))
    assert found


def test_robust_recall_is_that_of_the_thorough_audit_where_there_was_one() -> None:
    from holdfast_studies import base

    study = base.get("X5")
    arm = study.arms("paper")[0]
    whole = scored(arm)
    found = Outcome(seed=0, figures={**whole.figures, "worst/eps=8/255 R@1": 0.75}, place=whole.place)
    (record,) = from_results(study, "paper", Results(outcomes={arm.name: [found]}))
    assert record["robust"]["R@1"] == 0.75
    assert validate(record) == []


def scored(arm: Arm) -> Outcome:
    """What an arm finds that was audited as it says, and no more."""
    kept = {m.prefix for m in arm.job.measures if isinstance(m, AuditMeasure) and m.protocol == "ers"}
    whole = outcome(0, 0.0)
    figures = {k: v for k, v in whole.figures.items() if not k.startswith("ers-") or k.partition("/")[0] in kept}
    return Outcome(seed=0, figures=figures, place=whole.place)
