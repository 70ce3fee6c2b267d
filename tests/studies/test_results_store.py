"""Records of cells: whole or absent, joined in any order."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.errors import HoldfastError
from holdfast_studies.jobs import Arm, AuditMeasure, Cell, Computation, Probe, Training, measure_key
from holdfast_studies.pending import distinct
from holdfast_studies.store import Merged, Store

AUDITS = (
    AuditMeasure(limit=10),
    AuditMeasure(mode="published"),
    AuditMeasure(protocol="adml"),
    Probe(function="p", arguments={"a": 1}),
)
JOB = Training(recipe="pocket", measures=AUDITS)
CELLS = [Cell(arm="arm", job=JOB, seed=seed) for seed in range(2)]


def record(*measures: int, value: float = 1.0) -> dict:
    taken = {measure_key(AUDITS[n]): {"figures": {"ERS": value + n}, "seconds": 2.0} for n in measures}
    return {"figures": {"R@1": 50.0}, "measures": taken, "seconds": 3.0, "place": {"device": "CPU"}}


def files(store: Store) -> dict[str, dict]:
    return {file.name: json.loads(file.read_text()) for file in sorted(store.records.glob("*.json"))}


def test_a_record_comes_back_as_an_outcome(tmp_path: Path) -> None:
    store = Store(tmp_path)
    assert store.missing(CELLS[0]) is None
    store.write(CELLS[0], record(0))
    assert store.missing(CELLS[0]) == list(AUDITS[1:])
    partly = store.outcome(CELLS[0])
    assert partly is not None
    assert partly.figures == {"R@1": 50.0, "ers-fixed/ERS": 1.0}
    assert not store.done(CELLS[0])
    store.write(CELLS[0], record(0, 1, 2, 3))
    outcome = store.outcome(CELLS[0])
    assert outcome is not None
    expected = {"R@1": 50.0, "ers-fixed/ERS": 1.0, "ers-published/ERS": 2.0, "adml-fixed/ERS": 3.0, "p/ERS": 4.0}
    assert outcome.figures == expected
    assert outcome.seconds == 3 + 4 * 2
    found = store.results([Arm(name="arm", job=JOB), Arm(name="other", job=JOB)], CELLS)
    assert [o.seed for o in found.outcomes["arm"]] == [0]
    assert found.outcomes["other"] == []


def test_flags_of_audits_come_along(tmp_path: Path) -> None:
    store, found = Store(tmp_path), record(0, 1)
    found["measures"][measure_key(AUDITS[1])]["flags"] = ["collapse"]
    store.write(CELLS[0], found)
    outcome = store.outcome(CELLS[0])
    assert outcome is not None
    assert outcome.flags == {"ers-published": ["collapse"]}


def test_an_audit_without_checks_serves_those_who_ask_for_none(tmp_path: Path) -> None:
    """One with them, and one of before they could be left out, serves everyone; merging keeps the one with them."""
    brief, whole = (AuditMeasure(limit=10, checks=checks) for checks in (False, True))
    cells = [Cell(arm="arm", job=Training(recipe="pocket", measures=(asked,)), seed=0) for asked in (brief, whole)]
    key, stores = measure_key(brief), [Store(tmp_path / name) for name in ("one", "other")]
    assert key == measure_key(whole)
    for kept, done in (({"checks": False}, (True, False)), ({"checks": True}, (True, True)), ({}, (True, True))):
        stores[0].write(cells[0], {"figures": {"R@1": 1.0}, "measures": {key: {"figures": {"ERS": 1.0}, **kept}}})
        assert tuple(stores[0].done(cell) for cell in cells) == done
    assert [cell.job.measures for cell in distinct([cells[0], cells[1], cells[0]])] == [(whole,)]
    for store, checks in zip(stores, (False, True), strict=True):
        found = {"figures": {"ERS": 1.0}, "checks": checks}
        store.write(cells[0], {"figures": {"R@1": 1.0}, "measures": {key: found}})
    assert stores[0].merge(stores[1].folder) == Merged(new=1, differing=())
    assert stores[0].done(cells[1])
    assert stores[1].merge(stores[0].folder) == Merged(new=0, differing=())


def test_a_collapse_is_a_result(tmp_path: Path) -> None:
    store = Store(tmp_path)
    store.write(CELLS[0], {"stopped": "collapsed", "figures": {"collapsed": 1.0}})
    assert store.done(CELLS[0])
    outcome = store.outcome(CELLS[0])
    assert outcome is not None
    assert outcome.stopped == "collapsed"


def test_the_same_training_is_one_record_whatever_is_measured() -> None:
    other = Cell(arm="elsewhere", job=Training(recipe="pocket"), seed=0)
    assert other.key == CELLS[0].key
    assert CELLS[1].key != CELLS[0].key
    longer = Cell(arm="arm", job=Training(recipe="pocket", settings={"epochs": 99}), seed=0)
    assert longer.key != CELLS[0].key


def test_a_measure_is_known_by_what_it_does_not_by_its_name() -> None:
    assert measure_key(AuditMeasure(name="a")) == measure_key(AuditMeasure(name="b"))
    assert measure_key(AuditMeasure(limit=10)) != measure_key(AuditMeasure(limit=20))
    assert measure_key(AuditMeasure()) != measure_key(Probe(function="ers"))


def test_a_killed_write_leaves_the_old_record(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = Store(tmp_path)
    store.write(CELLS[0], record(0))
    before = files(store)

    def killed(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Path, "replace", killed)
    with pytest.raises(KeyboardInterrupt):
        store.write(CELLS[0], record(0, 1))
    assert files(store) == before
    assert [file.name for file in store.records.iterdir()] == list(before)


@pytest.mark.parametrize("text", ["", "{", "[]", '{"schema": 99}'])
def test_a_broken_record_is_named(text: str, tmp_path: Path) -> None:
    store = Store(tmp_path)
    store.write(CELLS[0], record(0))
    (store.records / f"{CELLS[0].key}.json").write_text(text)
    with pytest.raises(HoldfastError, match="no record"):
        store.read(CELLS[0])


MACHINE = st.dictionaries(st.integers(0, 1), st.sets(st.integers(0, 3)), max_size=2)


@settings(deadline=None, max_examples=40)
@given(mine=MACHINE, theirs=MACHINE)
def test_merging_is_idempotent_and_has_no_order(
    mine: dict, theirs: dict, tmp_path_factory: pytest.TempPathFactory
) -> None:
    root = tmp_path_factory.mktemp("machines")

    def machine(name: str, content: dict) -> Store:
        store = Store(root / name)
        store.records.mkdir(parents=True)
        for cell, measures in content.items():
            store.write(CELLS[cell], record(*measures))
        return store

    a, b, empty = machine("a", mine), machine("b", theirs), machine("empty", {})
    again = machine("again", mine)
    for other in (b.folder, b.folder, a.folder):
        again.merge(other)
    first = files(again)
    b.merge(a.folder)
    assert files(b) == first
    assert again.merge(b.folder) == Merged(new=0, differing=())
    assert empty.merge(b.folder) == Merged(new=len(first), differing=())
    wanted = {cell: mine.get(cell, set()) | theirs.get(cell, set()) for cell in mine.keys() | theirs.keys()}
    assert {CELLS[cell].key: len(m) for cell, m in wanted.items()} == {
        name.removesuffix(".json"): len(found["measures"]) for name, found in first.items()
    }


@pytest.mark.parametrize(
    "other",
    [
        {**record(1), "figures": {"R@1": 50.1}},
        {**record(1), "figures": {"R@1": None}},
        {"figures": {"collapsed": 1.0}, "stopped": "collapsed", "measures": {}},
    ],
)
def test_measures_of_two_models_are_not_mixed(other: dict, tmp_path: Path) -> None:
    mine, theirs = Store(tmp_path / "mine"), Store(tmp_path / "theirs")
    mine.write(CELLS[0], record(0))
    theirs.write(CELLS[0], other)
    before = files(mine)
    assert mine.merge(theirs.folder) == Merged(new=0, differing=(theirs.records / f"{CELLS[0].key}.json",))
    assert files(mine) == before


def test_time_and_rounding_make_no_other_model(tmp_path: Path) -> None:
    mine, theirs = Store(tmp_path / "mine"), Store(tmp_path / "theirs")
    mine.write(CELLS[0], {**record(0), "figures": {"R@1": 50.0, "log/seconds": 3.0}})
    theirs.write(CELLS[0], {**record(1), "figures": {"R@1": 50.0000001, "log/seconds": 4.0}})
    assert mine.merge(theirs.folder).new == 1
    assert mine.missing(CELLS[0]) == list(AUDITS[2:])


@pytest.mark.parametrize("text", ["", "[]", '{"schema": 99}'])
@pytest.mark.parametrize("whose", ["mine", "theirs"])
def test_a_broken_record_cannot_be_merged(whose: str, text: str, tmp_path: Path) -> None:
    for name in ("mine", "theirs"):
        Store(tmp_path / name).write(CELLS[0], record(0))
    (tmp_path / whose / "cells" / f"{CELLS[0].key}.json").write_text(text)
    with pytest.raises(HoldfastError, match=f"{whose}.*no record"):
        Store(tmp_path / "mine").merge(tmp_path / "theirs")


def test_a_killed_merge_leaves_whole_records_or_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mine, theirs = Store(tmp_path / "mine"), Store(tmp_path / "theirs")
    theirs.write(CELLS[0], record(0))

    def killed(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Path, "replace", killed)
    with pytest.raises(KeyboardInterrupt):
        mine.merge(theirs.folder)
    assert list(mine.records.iterdir()) == []


def test_a_folder_without_cells_cannot_be_merged(tmp_path: Path) -> None:
    with pytest.raises(HoldfastError, match="--out folder"):
        Store(tmp_path / "a").merge(tmp_path)


def test_computations_with_other_arguments_are_not_mixed_up(tmp_path: Path) -> None:
    store = Store(tmp_path)
    one, two = (Cell(arm="x", job=Computation(measure=Probe(function="p", arguments={"a": n})), seed=0) for n in (1, 2))
    store.write(one, {"measures": {measure_key(one.job.measures[0]): {"figures": {"v": 1.0}}}})
    assert store.done(one)
    assert not store.done(two)


def test_a_record_stands_when_a_recipe_gains_a_key_and_falls_when_a_value_changes(tmp_path: Path) -> None:
    cell = Cell(arm="a", job=Training(recipe="pocket"), seed=0)
    store = Store(tmp_path)
    recipe = cell.job.resolved(0).plain()
    older = {key: value for key, value in recipe.items() if key != "cache"}
    store.write(cell, {"figures": {"R@1": 50.0}, "recipe": older})
    assert store.done(cell)
    store.write(cell, {"figures": {"R@1": 50.0}, "recipe": {**older, "epochs": recipe["epochs"] + 1}})
    assert store.missing(cell) is None
