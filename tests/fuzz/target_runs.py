"""Files of runs and studies, as reports, comparisons, model cards and result pages read them."""

from __future__ import annotations

import functools
import json
import random
import tempfile
from pathlib import Path
from typing import Any

from compared_runs import add_exhibits, make_run
from fuzzing import Target, Wrong
from mutations import damaged_bytes, damaged_text, encoded
from target_packages import Files, _read, _unpack, damaged_json

from holdfast.errors import HoldfastError
from holdfast.models.card import write_card
from holdfast.report.compare_page import compare
from holdfast.report.comparison import read_comparison
from holdfast.report.page import make
from holdfast_studies import base, leaderboard
from holdfast_studies.document import plain_job, read_plain, results_of
from holdfast_studies.jobs import AuditMeasure, Cell, Computation, Probe, Training, measure_key
from holdfast_studies.page import load, page_text
from holdfast_studies.recorded import names, recipe_of
from holdfast_studies.store import Store


@functools.cache
def _run() -> Files:
    with tempfile.TemporaryDirectory() as folder:
        flag = {"name": "collapse", "level": "warning", "why": "one point", "advice": "train again"}
        make_run(Path(folder) / "run", flags=[flag], audit={"budget": {"eps_normalized": 0.15}}, robust=3.5)
        add_exhibits(Path(folder) / "run", 5, 0, [1, 2, 3, 4, 5, 6])
        return _read(Path(folder) / "run")


def _hurt(draw: random.Random, folder: Path) -> None:
    """A run with one damaged file."""
    files = dict(_run())
    name = draw.choice(sorted(files))
    if name.endswith((".png", ".safetensors")):
        files[name] = damaged_bytes(files[name], draw)
        _unpack(files, folder)
        return
    text = files[name].decode()
    if name.endswith(".json"):
        files[name] = damaged_json(files[name], draw)
    elif name.endswith(".jsonl") and draw.random() < 0.7:
        lines = text.splitlines()
        row = draw.randrange(len(lines))
        lines[row] = damaged_json(lines[row].encode(), draw).decode("utf-8", "replace")
        files[name] = "\n".join(lines).encode()
    else:
        files[name] = encoded(damaged_text(text, draw), draw)
    _unpack(files, folder)


def _report(draw: random.Random, folder: Path) -> None:
    _hurt(draw, folder / "a")
    page = make(folder / "a", True)
    page.html.encode()
    if "<script>alert" in page.html:
        raise Wrong("a name became part of the page")


def _compare(draw: random.Random, folder: Path) -> None:
    _hurt(draw, folder / "a")
    _unpack(_run(), folder / "b")
    json.dumps(read_comparison([folder / "a", folder / "b"]).plain(), allow_nan=False)
    page = compare([folder / "a", folder / "b"], folder / "page.html").read_text("utf-8")
    if "<script>alert" in page:
        raise Wrong("a name became part of the page")


def _card(draw: random.Random, folder: Path) -> None:
    _hurt(draw, folder)
    if "<script" in write_card(folder).read_text("utf-8"):
        raise Wrong("a name became part of the card")


TRAINING = Training(recipe="pocket", measures=(AuditMeasure(limit=100),))
CELLS = (
    Cell(arm="a", job=TRAINING, seed=0),
    Cell(arm="b", job=Computation(measure=Probe(function="spent")), seed=1),
)


@functools.cache
def _record(number: int) -> bytes:
    cell = CELLS[number]
    taken = {"figures": {"ERS": 20.5, "R@1": None}, "series": {"curve": [1.0, 2.0]}, "seconds": 3.0}
    record: dict[str, Any] = {
        "schema": 1,
        "seed": cell.seed,
        "figures": {"R@1": 50.0},
        "series": {},
        "seconds": 12.5,
        "place": {"device": "CPU", "versions": {"holdfast": "0"}},
        "stopped": None,
        "measures": {measure_key(cell.job.measures[0]): taken},
    }
    if number == 0:
        record["recipe"] = TRAINING.resolved(0).plain()
    return json.dumps(record).encode()


def _study(draw: random.Random, folder: Path) -> None:
    number = draw.randrange(2)
    cell, store, other = CELLS[number], Store(folder / "own"), Store(folder / "other")
    for own in (store, other) if draw.random() < 0.8 else (other,):
        content = damaged_json(_record(number), draw) if own is store or draw.random() < 0.5 else _record(number)
        _unpack({f"{cell.key}.json": content}, own.records)
    if draw.random() < 0.5 and other.records.is_dir():
        store.merge(other.folder)
    store.missing(cell)
    outcome = store.outcome(cell)
    if outcome is not None:
        for value in outcome.figures.values():
            if value is not None and not isinstance(value, float):
                raise Wrong(f"a figure is {value!r}")


PLACE = {"device": "CPU", "versions": {"holdfast": "0"}, "files": ["weights.pth"]}


@functools.cache
def _raw() -> bytes:
    cell = {"seed": 0, "figures": {"R@1": 5.0}, "series": {"a": [1]}, "seconds": 1.5, "place": PLACE, "stopped": None}
    arm = base.get("A1").arms("pocket")[0]
    own = {"job": plain_job(arm.job), "recipe": recipe_of(arm.job), "planned": [0]}
    arms = {arm.name: {**own, "cells": [cell, {**cell, "seed": 1}]}}
    head = {"schema": 1, "study": "A1", "scale": "pocket", "changes": names(), "recipe": {}}
    return json.dumps({**head, "arms": arms, "verdicts": []}).encode()


def _document(draw: random.Random, folder: Path) -> None:
    (folder / "A1.json").write_bytes(damaged_json(_raw(), draw))
    results = results_of(read_plain(folder / "A1.json"))
    for arm in results.outcomes:
        results.mean(arm, "R@1")
    found = load(folder / "A1.json")
    if "<script>alert" in page_text(found.scale, [found], {}):
        raise Wrong("a name became part of the page")


@functools.cache
def _entry() -> bytes:
    terms = {"CA+": 20.0, "CA-": 20.0, "QA+": 20.0, "QA-": 20.0, "TMA": 0.5, "ES:D": 0.5, "ES:R": 20.0}
    terms |= {"LTM": 20.0, "GTM": 20.0, "GTT": 20.0, "ERS": 20.0}
    record = dict.fromkeys(leaderboard.FIELDS, "x") | {"schema": 1, "dim": 8, "epochs": 2, "seeds": [0, 1]}
    record |= {"clean": {"R@1": 50.0}, "ers": {"fixed": terms, "published": None, "limit": None}}
    record |= {"robust": {"R@1": 3.5, "eps": 8 / 255, "norm": "linf"}, "natural": {"R@1": 40.0}}
    return json.dumps(record | {"cost": {"passes": 1.0, "seconds": 5.0, "hardware": "CPU"}}).encode()


def _submission(draw: random.Random, folder: Path) -> None:
    try:
        record = json.loads(damaged_json(_entry(), draw))
    except (ValueError, RecursionError):
        return
    problems = leaderboard.validate(record)
    if problems:
        raise HoldfastError(problems[0])
    leaderboard.page_text([record])


TARGETS = (
    Target("report", _report, 5),
    Target("compare", _compare, 3),
    Target("model-card", _card, 12),
    Target("study-record", _study, 60),
    Target("study-raw", _document, 120),
    Target("leaderboard", _submission, 120),
)
