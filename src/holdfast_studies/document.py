"""Raw results of a study as one small JSON file, and back."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from holdfast.errors import HoldfastError
from holdfast.files import write_atomic
from holdfast.run_files import finite
from holdfast.versions import versions
from holdfast_studies.base import Study
from holdfast_studies.changes import names
from holdfast_studies.jobs import SCALES, Audit, Cell, Job, Measure, Probe, Scale, Training
from holdfast_studies.judging import verdicts
from holdfast_studies.recorded import common, recipe_of
from holdfast_studies.results import Outcome, Results
from holdfast_studies.setting import setting
from holdfast_studies.trimming import trimmed

SCHEMA = 1
WIDTH = 110
"""Parts of the file that fit in a line this long are not broken up."""


def planned_seeds(cells: Iterable[Cell]) -> dict[str, list[int]]:
    """Arm → seeds it is to be run with."""
    seeds: dict[str, list[int]] = {}
    for cell in cells:
        seeds.setdefault(cell.arm, []).append(cell.seed)
    return seeds


def document(study: Study, scale: Scale, results: Results, planned: Mapping[str, list[int]]) -> dict[str, Any]:
    """Everything a page needs, as plain data.

    Args:
        study: which.
        scale: of its arms.
        results: what was found so far.
        planned: arm → seeds it was to be run with.
    """
    kept = trimmed(study, scale, results)
    every = study.arms(scale)
    recipes = {a.name: recipe_of(a.job) for a in every if isinstance(a.job, Training) and kept.outcomes.get(a.name)}
    shared = common(list(recipes.values()))
    arms = {
        arm.name: {
            "job": plain_job(arm.job),
            **({"recipe": _but(shared, recipes[arm.name])} if arm.name in recipes else {}),
            "setting": {"kind": (own := setting(arm.job)).kind, "how": own.how},
            "reading": arm.reading,
            "planned": sorted(planned.get(arm.name, [])),
            "cells": [dataclasses.asdict(outcome) for outcome in kept.outcomes.get(arm.name, [])],
        }
        for arm in every
    }
    return {
        "schema": SCHEMA,
        "study": study.id,
        "scale": scale,
        "title": study.title,
        "source": study.source,
        "published": study.published,
        "notes": study.notes(scale),
        "changes": names(),
        "recipe": shared,
        "arms": arms,
        "verdicts": [
            {
                "claim": verdict.claim,
                "reading": verdict.reading,
                "status": verdict.status if verdict.standing == "verdict" else verdict.standing,
                "words": verdict.words,
                "evidence": verdict.evidence,
            }
            for verdict in verdicts(study, scale, kept)
        ],
        "versions": versions(),
    }


def write(file: Path, content: Mapping[str, Any]) -> None:
    """Write it, short parts on one line, so that changes are seen line by line."""
    write_atomic(file, _laid_out(content) + "\n")


def results_of(content: Mapping[str, Any]) -> Results:
    """The results in a raw file's content."""
    arms = {
        name: sorted((_outcome(cell) for cell in arm["cells"]), key=lambda outcome: outcome.seed)
        for name, arm in content["arms"].items()
    }
    return Results(outcomes=arms)


def read_plain(file: str | Path) -> dict[str, Any]:
    """The raw file as it is, its form checked."""
    try:
        content = json.loads(Path(file).read_text("utf-8"))
        sound = content["schema"] == SCHEMA and content["scale"] in SCALES and isinstance(content["study"], str)
        sound = sound and all(_sound_arm(arm) for arm in content["arms"].values())
        sound = sound and isinstance(content.get("recipe", {}), dict) and isinstance(content.get("changes", []), list)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        sound = False
    if not sound:
        raise HoldfastError(f"{file} is no raw result of a study of this version; `holdfast study --summary` writes it")
    return dict(content)


def plain_job(job: Job) -> dict[str, Any]:
    """An arm's job as plain data, with the two settings every reader asks for."""
    plain: dict[str, Any] = json.loads(json.dumps(dataclasses.asdict(job)))
    if isinstance(job, Training):
        recipe = job.resolved(0)
        plain |= {"epochs": recipe.epochs, "backbone": recipe.model.backbone}
    return plain


def measure_of(plain: Mapping[str, Any]) -> Measure | None:
    """A measure from its plain form; None where no such measure exists any more."""
    try:
        return Probe(**plain) if "function" in plain else Audit(**plain)
    except TypeError:
        return None


def prefix_of(plain: Mapping[str, Any]) -> str:
    """What the figures of a measure are stored under, from its plain form."""
    return str(plain.get("name") or plain.get("function") or f"{plain.get('protocol')}-{plain.get('mode')}")


def _but(shared: Mapping[str, Any], recipe: Mapping[str, Any]) -> dict[str, Any]:
    """What a recipe says beyond what all say."""
    return {key: value for key, value in recipe.items() if key not in shared}


def _sound_arm(arm: Any) -> bool:
    job, cells = arm["job"], arm["cells"]
    if not isinstance(job, dict) or not isinstance(arm["planned"], list) or not isinstance(cells, list):
        return False
    if not isinstance(arm.get("recipe", {}), dict):
        return False
    if "recipe" in job and cells:
        data = job["data"] if isinstance(job["data"], str) else job["data"]["name"]
        words = isinstance(data, str) and isinstance(job["backbone"], str)
        if not words or finite(job["epochs"]) is None or not all(isinstance(one, dict) for one in job["measures"]):
            return False
    return all(_sound_cell(cell) for cell in cells)


def _sound_cell(cell: Any) -> bool:
    kinds: dict[str, Any] = {"seed": int, "figures": dict, "series": dict, "place": dict, "stopped": str | None}
    if set(cell) != {*kinds, "seconds"} or not all(isinstance(cell[key], kind) for key, kind in kinds.items()):
        return False
    found, files = cell["place"].get("versions", {}), cell["place"].get("files", [])
    texts = isinstance(files, list) and all(isinstance(text, str) for text in (*found.values(), *files))
    return texts and finite(cell["seconds"]) is not None


def _outcome(cell: dict[str, Any]) -> Outcome:
    return Outcome(**{**cell, "figures": {key: finite(value) for key, value in cell["figures"].items()}})


def _laid_out(value: Any, indent: str = "") -> str:
    line = json.dumps(value, ensure_ascii=False, allow_nan=False)
    parts = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    if len(line) <= WIDTH or not any(isinstance(part, dict | list) and part for part in parts) or _numbers(value):
        return line
    deeper = indent + " "
    if isinstance(value, dict):
        lines = [f"{json.dumps(key, ensure_ascii=False)}: {_laid_out(part, deeper)}" for key, part in value.items()]
    else:
        lines = [_laid_out(part, deeper) for part in value]
    start, end = ("{", "}") if isinstance(value, dict) else ("[", "]")
    return f"{start}\n{deeper}" + f",\n{deeper}".join(lines) + f"\n{indent}{end}"


def _numbers(value: Any) -> bool:
    """A list of numbers or points."""
    return isinstance(value, list) and not any(isinstance(part, dict) for part in value)
