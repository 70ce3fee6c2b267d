"""Raw results of a study as one small JSON file, and back; what of them is void today is not shown."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from holdfast.errors import HoldfastError
from holdfast.files import write_atomic
from holdfast.run_files import finite
from holdfast.versions import versions
from holdfast_studies.base import Study
from holdfast_studies.jobs import SCALES, AuditMeasure, Cell, Job, Measure, Probe, Scale, Training, measure_key
from holdfast_studies.judging import trimmed, verdicts
from holdfast_studies.recorded import changed_keys, common, later, later_for, names, recipe_of
from holdfast_studies.results import Outcome, Results
from holdfast_studies.setting import setting

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
    arms = {}
    for arm in every:
        own = setting(arm.job)
        recipe = {key: value for key, value in recipes.get(arm.name, {}).items() if key not in shared}
        arms[arm.name] = {
            "job": plain_job(arm.job),
            **({"recipe": recipe} if arm.name in recipes else {}),
            "setting": {"kind": own.kind, "how": own.how},
            "reading": arm.reading,
            "planned": sorted(planned.get(arm.name, [])),
            "cells": [_plain_outcome(outcome) for outcome in kept.outcomes.get(arm.name, [])],
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

    def outcome(cell: dict[str, Any]) -> Outcome:
        return Outcome(**{**cell, "figures": {key: finite(value) for key, value in cell["figures"].items()}})

    arms = content["arms"].items()
    return Results(
        outcomes={name: sorted(map(outcome, arm["cells"]), key=lambda found: found.seed) for name, arm in arms}
    )


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


def _plain_outcome(outcome: Outcome) -> dict[str, Any]:
    plain = dataclasses.asdict(outcome)
    return plain if plain["flags"] else {key: value for key, value in plain.items() if key != "flags"}


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
    if {*cell, "flags"} != {*kinds, "seconds", "flags"}:
        return False
    if not all(isinstance(cell[key], kind) for key, kind in kinds.items()):
        return False
    flags = cell.get("flags", {})
    if not all(isinstance(names, list) and all(isinstance(name, str) for name in names) for names in flags.values()):
        return False
    found, files = cell["place"].get("versions", {}), cell["place"].get("files", [])
    texts = isinstance(files, list) and all(isinstance(text, str) for text in (*found.values(), *files))
    return texts and finite(cell["seconds"]) is not None


def _laid_out(value: Any, indent: str = "") -> str:
    line = json.dumps(value, ensure_ascii=False, allow_nan=False)
    parts = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    numbers = isinstance(value, list) and not any(isinstance(part, dict) for part in value)  # or points
    if len(line) <= WIDTH or not any(isinstance(part, dict | list) and part for part in parts) or numbers:
        return line
    deeper = indent + " "
    if isinstance(value, dict):
        lines = [f"{json.dumps(key, ensure_ascii=False)}: {_laid_out(part, deeper)}" for key, part in value.items()]
    else:
        lines = [_laid_out(part, deeper) for part in value]
    start, end = ("{", "}") if isinstance(value, dict) else ("[", "]")
    return f"{start}\n{deeper}" + f",\n{deeper}".join(lines) + f"\n{indent}{end}"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Void:
    """Results that are not shown.

    Args:
        arm: as the raw file calls it.
        cells: how many seeds.
        why: a clause.
        measure: the prefix of the figures, where only those of a measure are void.
    """

    arm: str
    cells: int
    why: str
    measure: str = ""


def valid(study: Study, scale: Scale, content: Mapping[str, Any]) -> tuple[Results, list[Void]]:
    """Results of the study's arms that were made as they would be today, and what of the file is void."""
    now = {arm.name: arm.job for arm in study.arms(scale)}
    known: Collection[str] = content.get("changes", ())
    outcomes: dict[str, list[Outcome]] = {name: [] for name in now}
    void: list[Void] = []
    for name, own in results_of(content).outcomes.items():
        if not own:
            continue
        plain, job = content["arms"][name], now.get(name)
        recipe = {**content.get("recipe", {}), **plain["recipe"]} if "recipe" in plain else None
        why = "the study has no such arm any more" if job is None else _void(job, recipe, plain["job"], known)
        if why:
            void.append(Void(arm=name, cells=len(own), why=why))
            continue
        gone = {}
        if isinstance(job, Training) and recipe is not None:
            gone = _void_measures(job, recipe, plain["job"]["measures"], known)
        void += [Void(arm=name, cells=len(own), why=reason, measure=prefix) for prefix, reason in gone.items()]
        prefixes = tuple(f"{prefix}/" for prefix in gone)
        outcomes[name] = [
            dataclasses.replace(
                outcome,
                figures={key: value for key, value in outcome.figures.items() if not key.startswith(prefixes)},
                series={key: value for key, value in outcome.series.items() if not key.startswith(prefixes)},
                flags={key: value for key, value in outcome.flags.items() if key not in gone},
            )
            for outcome in own
        ]
    return Results(outcomes=outcomes), void


def _void(
    job: Job, recipe: Mapping[str, Any] | None, recorded: Mapping[str, Any], known: Collection[str]
) -> str | None:
    """Why nothing of an arm counts any more; None where it does."""
    if not isinstance(job, Training):
        own = plain_job(job)
        del own["differs"]  # said of the source; it changes no figure
        if any(recorded.get(key) != value for key, value in own.items()):
            return "it computes something else now"
        touched = later_for(dataclasses.asdict(job.measure), recipe_of(job), known)
    elif recipe is None:
        return "no recipe is on record"
    else:
        touched = later(recipe, known)
    if touched:
        return f"made before {' and '.join(touched)}"
    changed = changed_keys(recipe, job) if isinstance(job, Training) and recipe is not None else []
    return f"the recipe has changed in {', '.join(changed)}" if changed else None


def _void_measures(
    job: Training, recipe: Mapping[str, Any], recorded: Sequence[Mapping[str, Any]], known: Collection[str]
) -> dict[str, str]:
    """Prefix of figures → why they do not count."""
    now = {measure_key(measure): measure.prefix for measure in job.measures}
    gone = {}
    for plain in recorded:
        try:
            measure: Measure | None = Probe(**plain) if "function" in plain else AuditMeasure(**plain)
        except TypeError:  # no such measure exists any more
            measure = None
        if measure is None or now.get(measure_key(measure)) != measure.prefix:
            named = plain.get("name") or plain.get("function") or f"{plain.get('protocol')}-{plain.get('mode')}"
            gone[str(named)] = "measured otherwise now"
        elif touched := later_for(plain, recipe, known):
            gone[measure.prefix] = f"made before {' and '.join(touched)}"
    return gone
