"""Results that were made otherwise than today are not shown."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from small_study import registered, with_arms

from holdfast_studies import base, recorded
from holdfast_studies.document import document, read_plain, write
from holdfast_studies.jobs import Arm, AuditMeasure, Cell, Scale, Training, flat, measure_key
from holdfast_studies.page import load, write_page
from holdfast_studies.recorded import Change, changed_keys, common, recipe_of
from holdfast_studies.results import Outcome, Results
from holdfast_studies.store import Merged, Store

AUDIT = AuditMeasure(limit=10)
OTHER = AuditMeasure(mode="published", limit=10)
ON = {"pocket": "glyphs", "paper": "cub"}


def trained(settings: dict[str, Any] | None = None, measures: tuple[AuditMeasure, ...] = (AUDIT, OTHER)) -> base.Study:
    """Two trainings."""

    def arms(scale: Scale) -> list[Arm]:
        over = {"high": settings or {}, "low": {"epochs": 3}}
        return [Arm(name, Training("pocket", ON[scale], {}, own, measures)) for name, own in over.items()]

    return with_arms(arms)


@pytest.fixture
def study() -> Iterator[base.Study]:
    with registered():
        base.registry._members["X9"] = trained
        yield trained()


FIGURES = {"R@1": 50.0, "ers-fixed/ERS": 20.0, "ers-published/ERS": 30.0}


def content(study: base.Study, scale: Scale) -> dict[str, Any]:
    found = {arm.name: [Outcome(seed=seed, figures=dict(FIGURES)) for seed in range(2)] for arm in study.arms(scale)}
    return document(study, scale, Results(outcomes=found), {"high": [0, 1], "low": [0, 1]})


def shown(study: base.Study, plain: dict[str, Any], file: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[dict, list]:
    """Arm → its figures, and what is void with why."""
    write(file, plain)
    monkeypatch.setattr("holdfast_studies.base.get", lambda _: study)
    found = load(file)
    figures = {arm: set(own[0].figures) if own else set() for arm, own in found.results.outcomes.items()}
    return figures, [(void.arm, void.measure, void.why) for void in found.void]


def test_what_was_made_as_today_is_shown(study: base.Study, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    figures, void = shown(study, content(study, "paper"), tmp_path / "X9.json", monkeypatch)
    assert figures == {"high": set(FIGURES), "low": set(FIGURES)}
    assert void == []


def test_a_changed_recipe_makes_an_arm_void(study: base.Study, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plain = content(study, "pocket")
    figures, void = shown(trained({"optimizer.lr": 0.5}), plain, tmp_path / "X9.json", monkeypatch)
    assert figures == {"high": set(), "low": set(FIGURES)}
    assert void == [("high", "", "the recipe has changed in optimizer.lr")]


def test_a_record_without_a_recipe_is_void(study: base.Study, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plain = content(study, "pocket")
    del plain["arms"]["high"]["recipe"]
    plain["arms"]["gone"] = plain["arms"]["low"]
    _, void = shown(study, plain, tmp_path / "X9.json", monkeypatch)
    assert void == [("high", "", "no recipe is on record"), ("gone", "", "the study has no such arm any more")]


def test_a_measure_that_is_taken_otherwise_is_void_alone(
    study: base.Study, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = content(study, "pocket")
    study = trained(measures=(dataclasses.replace(AUDIT, limit=20), OTHER))
    plain["arms"]["low"]["job"]["measures"][1]["units"] = "of another version"
    figures, void = shown(study, plain, tmp_path / "X9.json", monkeypatch)
    assert figures == {"high": {"R@1", "ers-published/ERS"}, "low": {"R@1"}}
    assert {(arm, measure) for arm, measure, _ in void} == {
        ("high", "ers-fixed"),
        ("low", "ers-fixed"),
        ("low", "ers-published"),
    }


@pytest.mark.parametrize(("scale", "stands"), [("pocket", True), ("paper", False)])
def test_photographs_from_before_they_kept_their_shape_are_void_and_square_images_are_not(
    scale: Scale, stands: bool, study: base.Study, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = content(study, scale)
    plain["changes"].remove("aspect")
    for recipe in (plain["recipe"], *(arm["recipe"] for arm in plain["arms"].values())):
        recipe.pop("model.fit", None)
    figures, void = shown(study, plain, tmp_path / "X9.json", monkeypatch)
    assert bool(figures["high"]) == stands
    assert void == (
        [] if stands else [(arm, "", "made before photographs kept their shape") for arm in ("high", "low")]
    )


PUBLISHED = Change(
    name="later",
    what="published attacks were put right",
    measure=lambda recipe, measure: measure.get("mode") == "published",
)


def test_a_change_may_touch_a_measure_alone(study: base.Study, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plain = content(study, "pocket")
    monkeypatch.setattr(recorded, "CHANGES", (*recorded.CHANGES, PUBLISHED))
    figures, void = shown(study, plain, tmp_path / "X9.json", monkeypatch)
    assert figures["high"] == {"R@1", "ers-fixed/ERS"}
    assert void[0] == ("high", "ers-published", "made before published attacks were put right")


def test_a_page_names_what_is_void_and_draws_none_of_it(study: base.Study, tmp_path: Path) -> None:
    raw, page, figures = tmp_path / "raw", tmp_path / "page.md", tmp_path / "figures"
    figures.mkdir()
    (figures / "X9-1.png").write_text("stale")
    plain = content(study, "pocket")
    for arm in plain["arms"].values():
        arm["recipe"]["epochs"] = 99
    raw.mkdir()
    write(raw / "X9.json", plain)
    write_page("pocket", raw, page, figures)
    text = page.read_text("utf-8")
    assert "### X9" not in text
    assert "Void, not shown: high, low (the recipe has changed in epochs)." in text
    assert not (figures / "X9-1.png").exists()


@pytest.mark.parametrize("void", [False, True])
def test_a_remark_may_be_about_what_is_void_and_goes_with_it(void: bool, study: base.Study, tmp_path: Path) -> None:
    plain = content(study, "pocket")
    if void:
        plain["arms"]["low"]["recipe"]["epochs"] = 99
    (tmp_path / "pocket-X9.md").write_text("We looked twice.")
    write(tmp_path / "X9.json", plain)
    write_page("pocket", tmp_path, tmp_path / "page.md", tmp_path / "figures", tmp_path)
    text = (tmp_path / "page.md").read_text("utf-8")
    assert "### X9" in text
    assert ("We looked twice." in text) != void


START = Training(recipe="pocket", settings={"epochs": 2})
JOB = Training(recipe="pocket", settings={"epochs": 3, "loss.alpha": 3.0}, start=START)


def test_a_key_that_came_later_matters_only_where_it_is_set() -> None:
    recorded = recipe_of(JOB)
    assert changed_keys(recorded, JOB) == []
    assert changed_keys({k: v for k, v in recorded.items() if k != "cache"}, JOB) == []
    assert changed_keys({k: v for k, v in recorded.items() if k != "loss.alpha"}, JOB) == ["loss.alpha"]
    assert changed_keys({**recorded, "gone": 1}, JOB) == ["gone"]
    assert changed_keys({**recorded, "start.epochs": 5}, JOB) == ["start.epochs"]


def test_an_argument_that_an_extra_came_to_have_is_no_reason_to_run_again() -> None:
    """Of `teacher`, `keeps` came later, and its default is what was done before."""
    at = {"name": "at", "budget": {"eps": "8/255", "step": "2/255", "steps": 4}}

    def job(**more: Any) -> Training:
        return Training("pocket", settings={"regime": at, "extras": [{"name": "teacher", "model": "t", **more}]})

    recorded = recipe_of(job())
    before = {**recorded, "extras": [{"name": "teacher", "model": "t", "weight": 1.0}]}
    assert changed_keys(before, job()) == []
    assert changed_keys(before, job(keeps="embeddings")) == ["extras.0.keeps"]
    assert changed_keys(before, job(weight=2.0)) == ["extras.0.weight"]
    assert changed_keys({**recorded, "extras": []}, job())
    assert changed_keys(recorded, Training("pocket", settings={"regime": at}))


def test_recipes_by_dotted_keys() -> None:
    assert flat({"a": {"b": {"c": 1}, "d": [1, 2]}, "e": {}}) == {"a.b.c": 1, "a.d": [1, 2], "e": {}}
    assert common([{"a": 1, "b": 2}, {"a": 1, "b": 3}, {"a": 1}]) == {"a": 1}
    assert common([]) == {}


def stored(store: Store, cell: Cell, known: list[str]) -> None:
    measure = {"figures": {"ERS": 1.0}, "changes": known}
    taken = {measure_key(m): dict(measure) for m in cell.job.measures}
    recipe = recipe_of(cell.job, cell.seed)
    store.write(cell, {"figures": {"R@1": 50.0}, "recipe": recipe, "measures": taken, "changes": known})


def test_a_stored_cell_is_run_again_after_a_change_that_touches_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = Store(tmp_path)
    cells = {
        data: Cell(arm="a", job=Training(recipe="pocket", data=data, measures=(AUDIT, OTHER)), seed=0)
        for data in ("glyphs", "cub")
    }
    runs = {data: store.run(cell.job, 0) for data, cell in cells.items()}  # type: ignore[arg-type]
    for cell in cells.values():
        stored(store, cell, [name for name in recorded.names() if name != "aspect"])
    assert store.done(cells["glyphs"])
    assert store.missing(cells["cub"]) is None, "its photographs were squashed"
    stored(store, cells["cub"], recorded.names())
    assert store.done(cells["cub"])
    monkeypatch.setattr(recorded, "CHANGES", (*recorded.CHANGES, PUBLISHED))
    assert store.missing(cells["cub"]) == [OTHER]
    assert {data: store.run(cell.job, 0) for data, cell in cells.items()} == runs  # type: ignore[arg-type]
    everything = Change(name="all", what="the sun rose", training=lambda recipe: recipe["epochs"] > 1)
    monkeypatch.setattr(recorded, "CHANGES", (*recorded.CHANGES, everything))
    assert store.missing(cells["glyphs"]) is None
    assert store.run(cells["glyphs"].job, 0) != runs["glyphs"], "or the old model would be taken for the new one"  # type: ignore[arg-type]


def test_what_another_machine_ran_again_takes_the_place_of_what_is_void(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And of void measures; what is void there is not taken over."""
    job = Training(recipe="pocket", data="cub", measures=(AUDIT, OTHER))
    cell, today = Cell(arm="a", job=job, seed=7), recorded.names()
    before = [name for name in today if name != "aspect"]
    old, new, empty = (Store(tmp_path / name) for name in ("old", "new", "empty"))
    stored(old, cell, before)
    stored(new, cell, today)
    again = new.read(cell)
    new.write(cell, {**again, "figures": {"R@1": 60.0}})
    assert empty.merge(old.folder, [job]) == Merged(new=0, differing=())
    assert new.merge(old.folder, [job]) == Merged(new=0, differing=())
    assert old.merge(new.folder, [job]) == Merged(new=1, differing=())
    assert old.read(cell)["figures"] == {"R@1": 60.0}
    monkeypatch.setattr(recorded, "CHANGES", (*recorded.CHANGES, PUBLISHED))
    assert old.missing(cell) == [OTHER]
    stored(new, cell, recorded.names())
    new.write(cell, {**new.read(cell), "figures": {"R@1": 60.0}})
    assert old.merge(new.folder, [job]) == Merged(new=1, differing=())
    assert old.done(cell)


def test_a_raw_file_says_what_it_was_made_with(study: base.Study, tmp_path: Path) -> None:
    write(tmp_path / "X9.json", content(study, "pocket"))
    plain = read_plain(tmp_path / "X9.json")
    assert plain["changes"] == recorded.names()
    assert plain["recipe"]["model.backbone"] == "conv-small"
    assert set(plain["arms"]["low"]["recipe"]) == {"epochs"}
    assert plain["arms"]["low"]["setting"] == {"kind": "pocket", "how": []}


GLYPHS = {"data.name": "glyphs", "data.labels": "fine", "data.train_fraction": 0.25, "batch.per_class": 4}


@pytest.mark.parametrize(
    ("name", "touched", "spared"),
    [
        ("aspect", {"data.name": "cub"}, {"data.name": "omniglot"}),
        ("loss-decay", {"loss.name": "margin", "optimizer.weight_decay": 4e-4}, {"loss.name": "triplet"}),
        ("copies", GLYPHS, {**GLYPHS, "data.train_fraction": 0.5}),
        ("easy-gate", {"loss.miner.negative": "multi-similarity"}, {"loss.miner.negative": "distance"}),
        ("released", {"regime.variant": "released"}, {"regime.variant": "paper"}),
        *(
            (
                "independent-draws",
                {"regime.name": "hm", **asked},
                {"regime.name": "hm", "regime.destination.name": "lga"},
            )
            for asked in ({"regime.destination.name": "semihard"}, {"regime.destination.of.name": "semihard"})
        ),
        ("shift", {"regime.name": "est"}, {"regime.name": "act"}),
        ("shift", {"regime.name": "at", "regime.goal.name": "shift"}, {"regime.goal.name": "single-target"}),
    ],
)
def test_changes_touch_what_they_say(name: str, touched: dict, spared: dict) -> None:
    found = {change.name: change for change in recorded.CHANGES}[name]
    assert found.training(touched)
    assert not found.training(spared)


@pytest.mark.parametrize(
    ("name", "touched", "spared"),
    [
        ("stax-start", {"protocol": "stax"}, {"protocol": "ers"}),
        ("shift", {"protocol": "ers"}, {"protocol": "stax"}),
        ("variance-of-means", {"function": "mined-hardness"}, {"function": "spent"}),
    ],
)
def test_changes_touch_the_measures_that_they_say(name: str, touched: dict, spared: dict) -> None:
    found = {change.name: change for change in recorded.CHANGES}[name]
    assert found.measure({}, touched)
    assert not found.measure({}, spared)


def test_a_value_that_is_only_written_otherwise_is_no_change() -> None:
    job = Training(recipe="mdprop-1-pocket")
    recorded = recipe_of(job)
    assert recorded["regime.statistics"] == "eval"
    assert changed_keys({**recorded, "regime.statistics": None}, job) == []
    assert changed_keys({**recorded, "regime.statistics": "keep"}, job) == ["regime.statistics"]


def test_changes_have_names_of_their_own() -> None:
    assert len(set(recorded.names())) == len(recorded.CHANGES)
