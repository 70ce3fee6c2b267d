"""A run folder that is gone on with: training, audits, exhibits and studies read what an earlier process wrote."""

from __future__ import annotations

import functools
import json
import random
import tempfile
from pathlib import Path

from compared_runs import add_exhibits, make_run
from fuzzing import Target, Wrong
from mutations import damaged_text, encoded
from target_packages import Files, _read, _unpack, damaged_json

from holdfast.audit.files import make_room
from holdfast.cli.evaluate import metrics_table
from holdfast.errors import HoldfastError, harmless
from holdfast.locks import locked
from holdfast.report import is_current
from holdfast.report.origin import find_origin
from holdfast.training.folder import TrainingFolder
from holdfast.training.logs import read_log
from holdfast.training.recipe import Recipe, load_recipe
from holdfast_studies.running import relocate


@functools.cache
def _recipe() -> Recipe:
    return load_recipe({"data": "glyphs", "epochs": 2, "batch": {"classes": 4, "per_class": 2}})


@functools.cache
def _run() -> Files:
    with tempfile.TemporaryDirectory() as folder:
        run = make_run(Path(folder) / "run")
        evaluation = json.loads((run / "evaluation.json").read_text())
        whole = {**evaluation, "skipped": [], "undefined": {"mAP@C": "one class"}}
        whole["metrics"] |= {"mAP@C": None}
        (run / "evaluation.json").write_text(json.dumps(whole))
        add_exhibits(run, 5, 0, [1, 2, 3, 4, 5, 6])
        (run / "recipe.yaml").write_text(_recipe().yaml())
        (run / ".lock").write_text("123 elsewhere\n")
        return _read(run)


def _resumed(draw: random.Random, folder: Path) -> None:
    files = dict(_run())
    name = draw.choice(
        ("recipe.yaml", "evaluation.json", "audit.json", "metrics.jsonl", "artifacts/exhibits.json", ".lock")
    )
    if name.endswith(".json"):
        files[name] = damaged_json(files[name], draw)
    else:
        files[name] = encoded(damaged_text(files[name].decode(), draw), draw)
    run = folder / "run"
    _unpack(files, run)
    with locked(run / ".lock", "the run"):
        log = read_log(run / "metrics.jsonl")
    if name != "metrics.jsonl" and len(log) != len(files["metrics.jsonl"].decode().splitlines()):
        raise Wrong("whole lines of the log were left out")
    is_current(run)
    _asked(run, draw)
    before = files["audit.json"]
    _, kept = make_room(run / "audit.json", {"identity": "this one", "quick": False})
    if (kept or run / "audit.json").read_bytes() != before:
        raise Wrong("an audit was lost")
    relocate(run, _recipe().plain())
    evaluation = TrainingFolder(run).open(_recipe())
    if evaluation is None and name != "evaluation.json":
        raise Wrong("a finished run counts as unfinished")
    if evaluation is not None and evaluation != json.loads(files["evaluation.json"]) and "NaN" not in str(files):
        raise Wrong("another evaluation than the file's")
    if evaluation is not None:
        printed = metrics_table(evaluation)
        if harmless(printed) != printed:
            raise Wrong(f"the table would steer a terminal: {printed!r}")


def _asked(run: Path, draw: random.Random) -> None:
    """Where the model and the images of the run lie; with its recipe gone, what its audit says."""
    if draw.random() < 0.5:
        (run / "recipe.yaml").rename(run / "aside")
    try:
        find_origin(run)
    except HoldfastError as error:
        if "\n" in str(error):
            raise Wrong(f"more than one line: {error}") from error
    if (run / "aside").exists():
        (run / "aside").rename(run / "recipe.yaml")


TARGETS = (Target("run-folder", _resumed, 20),)
