"""SIGKILL during audits, studies, and the writing of indexes and vectors; a study whose worker dies."""

from __future__ import annotations

import hashlib
import json
import os
import random
import signal
from functools import partial
from pathlib import Path

import numpy as np
from fault_children import command, finished
from fault_kills import kill_command
from fault_outcomes import Outcome
from fault_runs import different, small, training

from holdfast.audit import ensemble, ers, flags, subject
from holdfast.errors import HoldfastError
from holdfast.search.store import read_index
from holdfast_studies import base, campaign, running
from holdfast_studies.jobs import Arm, Cell, Scale, Training
from holdfast_studies.store import Store

DATA = ["--data", "glyphs", "--device", "cpu", "--json"]


def short(scale: Scale) -> base.Plan:
    settings = {"model.backbone": "conv-tiny", "batch.classes": 4, "epochs": 1, "checkpoint_every": 2}
    data = {"name": "glyphs", "characters": 30, "per_class": 5}
    jobs = {dim: Training("pocket", data, settings={**settings, "model.dim": dim}) for dim in (8, 16)}
    return base.Plan([Arm(f"dim {dim}", job, (0,)) for dim, job in jobs.items()], [], columns={"R@1": "R@1"})


SHORT = base.Study(
    id="X8",
    title="Two trainings that take a moment, for faults to strike",
    source="Nobody, Table 0",
    published="nothing",
    plan=short,
)


def know_the_study() -> None:
    """In a child: make the study known."""
    base.names()
    base.registry._members["X8"] = lambda: SHORT


def trained(folder: Path) -> Path:
    """A run whose model is worked with."""
    finished(training(small(), folder), folder)
    return folder / "run"


def kill_audit(folder: Path, draw: random.Random, count: int, model: Path) -> list[Outcome]:
    """Kill an audit; the measurements of every image must come out as without."""
    words = partial(audit_words, model)
    return kill_command("SIGKILL of other commands", "audit", words, audit_end, folder, draw, count, also=few_steps)


def few_steps() -> None:
    """In a child: all attacks take few steps; what is struck is what they write."""
    ers.STEPS = ensemble.STEPS = 4
    subject.SQUARE_QUERIES = 10
    flags.IMAGES, flags.STEPS, flags.QUERIES = 8, 4, 10


def audit_words(model: Path, place: Path) -> list[str]:
    """The words that audit a model in `place/out`."""
    return ["audit", str(model), *DATA, "--limit", "12", "--batch", "4", "--out", str(place / "out")]


def audit_end(place: Path) -> dict[str, str]:
    """Everything a finished audit says."""
    found = json.loads((place / "out" / "audit.json").read_text())
    stored = {name: hashlib.sha256((place / "out" / name).read_bytes()).hexdigest() for name in found["artifacts"]}
    return {**stored, "metrics": json.dumps(found["metrics"]), "intervals": json.dumps(found["intervals"])}


def kill_index(folder: Path, draw: random.Random, count: int, model: Path) -> list[Outcome]:
    """Kill the making of an index and the adding to one, which must stay usable all the time."""

    def with_an_index(place: Path) -> None:
        place.mkdir(parents=True)
        finished(index_words(model, place), place)

    def usable(place: Path) -> bool:
        try:
            return len(read_index(place / "index")) > 0
        except HoldfastError:
            return False

    strike = partial(kill_command, "SIGKILL of other commands", draw=draw, count=count)
    return [
        *strike("index", partial(index_words, model), index_end, folder / "make"),
        *strike("index --add", adding_words, index_end, folder / "add", prepare=with_an_index, usable=usable),
    ]


def index_words(model: Path, place: Path) -> list[str]:
    """The words that make an index in `place/index`."""
    out = str(place / "index")
    return ["index", str(model), *DATA, "--split", "test", "--calibrate", "100", "--out", out]


def adding_words(place: Path) -> list[str]:
    """The words that add to it."""
    return ["index", str(place / "index"), "--add", "glyphs", "--split", "val", "--device", "cpu", "--json"]


def index_end(place: Path) -> dict[str, str]:
    """What is in it."""
    found = read_index(place / "index")
    return {"ids": str(found.images.ids), "vectors": hashlib.sha256(found.vectors.tobytes()).hexdigest()}


def kill_embed(folder: Path, draw: random.Random, count: int, model: Path) -> list[Outcome]:
    """Kill the writing of vectors."""

    def words(place: Path) -> list[str]:
        return ["embed", str(model), *DATA, "--split", "test", "--out", str(place / "vectors.npz")]

    def end(place: Path) -> dict[str, str]:
        with np.load(place / "vectors.npz") as found:
            return {name: hashlib.sha256(found[name].tobytes()).hexdigest() for name in found.files}

    return kill_command("SIGKILL of other commands", "embed", words, end, folder, draw, count)


def kill_study(folder: Path, draw: random.Random, count: int) -> list[Outcome]:
    """Kill a study between and within its cells."""
    fault = "SIGKILL of other commands"
    return kill_command(fault, "study", _study, _figures, folder, draw, count, also=know_the_study)


def kill_worker(folder: Path) -> list[Outcome]:
    """A process of a study with several is killed, as by the system when memory runs out."""
    whole, cut = folder / "whole", folder / "cut"
    for place in (whole, cut):
        place.mkdir(parents=True)
    finished(_study(whole), whole, know_the_study)
    first = command([*_study(cut), "--jobs", "2"], cut, partial(_kill_first_worker, str(cut)))
    told = first.code in (0, 1) and "Traceback" not in first.said
    finished(_study(cut), cut, know_the_study)
    wrong = different(_figures(whole), _figures(cut))
    return [Outcome("worker death", "study --jobs 2", told and not wrong, bool(wrong), first.said[-200:])]


def _study(place: Path) -> list[str]:
    return ["study", "X8", "--device", "cpu", "--jobs", "1", "--json", "--out", str(place / "out")]


def _figures(place: Path) -> dict[str, str]:
    files = sorted((place / "out" / "pocket" / "cells").glob("*.json"))
    figures = {file.name: json.loads(file.read_text())["figures"] for file in files}
    return {
        name: json.dumps({key: value for key, value in own.items() if key != "log/seconds"}, sort_keys=True)
        for name, own in figures.items()
    }


def _kill_first_worker(mark: str) -> None:
    know_the_study()
    campaign.run_cell = partial(_dies_once, mark)


def _dies_once(
    mark: str, cell: Cell, store: Store, places: running.Places, company: running.Company = running.ALONE
) -> None:
    """In a worker: the first to come dies, the others work."""
    know_the_study()
    try:
        os.close(os.open(f"{mark}/struck", os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        running.run_cell(cell, store, places, company)
    else:
        os.kill(os.getpid(), signal.SIGKILL)
