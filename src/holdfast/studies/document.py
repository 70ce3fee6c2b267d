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
from holdfast.studies.base import Study
from holdfast.studies.jobs import SCALES, Arm, Cell, Job, Scale, Training
from holdfast.studies.results import Outcome, Results
from holdfast.studies.trimming import trimmed
from holdfast.studies.verdict import Verdict
from holdfast.versions import versions

SCHEMA = 1
WIDTH = 110
"""Parts of the file that fit in a line this long are not broken up."""


def planned_seeds(cells: Iterable[Cell]) -> dict[str, list[int]]:
    """Arm → seeds it is to be run with."""
    seeds: dict[str, list[int]] = {}
    for cell in cells:
        seeds.setdefault(cell.arm, []).append(cell.seed)
    return seeds


def title(study: Study) -> str:
    """The first line of its docstring, without the full stop."""
    return (study.__doc__ or "").strip().partition("\n")[0].rstrip(".")


def verdicts(study: Study, scale: Scale, results: Results) -> list[Verdict]:
    """What its claims come to."""
    return [claim.verdict(results) for claim in study.claims(scale)]


def document(study: Study, scale: Scale, results: Results, planned: Mapping[str, list[int]]) -> dict[str, Any]:
    """Everything a page needs, as plain data.

    Args:
        study: which.
        scale: of its arms.
        results: what was found so far.
        planned: arm → seeds it was to be run with.
    """
    kept = trimmed(study, scale, results)
    arms = {
        arm.name: {
            "job": plain_job(arm.job),
            "planned": sorted(planned.get(arm.name, [])),
            "cells": [dataclasses.asdict(outcome) for outcome in kept.outcomes.get(arm.name, [])],
        }
        for arm in study.arms(scale)
    }
    return {
        "schema": SCHEMA,
        "study": study.id,
        "scale": scale,
        "title": title(study),
        "source": study.source,
        "published": study.published,
        "notes": study.notes(scale),
        "arms": arms,
        "verdicts": [
            {"claim": verdict.claim, "status": verdict.status, "evidence": verdict.evidence}
            for verdict in verdicts(study, scale, kept)
        ],
        "versions": versions(),
    }


def write(file: Path, content: Mapping[str, Any]) -> None:
    """Write it, short parts on one line, so that changes are seen line by line."""
    write_atomic(file, _laid_out(content) + "\n")


def read(file: str | Path) -> tuple[str, Scale, Results]:
    """Study, scale and results of a raw file; its verdicts are not read, they are computed again."""
    content = read_plain(file)
    return content["study"], content["scale"], results_of(content)


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


def outdated(study: Study, scale: Scale, content: Mapping[str, Any]) -> list[str]:
    """Arms of a raw file that the study does not have, or no longer does in that way."""
    now: dict[str, Arm] = {arm.name: arm for arm in study.arms(scale)}
    return [
        name for name, arm in content["arms"].items() if name not in now or arm.get("job") != plain_job(now[name].job)
    ]


def _sound_arm(arm: Any) -> bool:
    job, cells = arm["job"], arm["cells"]
    if not isinstance(job, dict) or not isinstance(arm["planned"], list) or not isinstance(cells, list):
        return False
    if "recipe" in job and cells:
        data = job["data"] if isinstance(job["data"], str) else job["data"]["name"]
        words = isinstance(data, str) and isinstance(job["backbone"], str)
        if not words or finite(job["epochs"]) is None:
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
