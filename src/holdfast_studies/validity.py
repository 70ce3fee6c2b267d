"""Which results of a raw file are still of the arms as they are now; the others are void and not shown."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from holdfast_studies.base import Study
from holdfast_studies.document import measure_of, plain_job, prefix_of, results_of
from holdfast_studies.jobs import Arm, Job, Scale, Training
from holdfast_studies.recorded import changed_keys, later, later_for, recipe_of
from holdfast_studies.results import Outcome, Results
from holdfast_studies.store import measure_key


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
    """Results of the study's arms that were made as they would be today, and what of the file is void.

    Args:
        study: with its arms as they are now.
        scale: of them.
        content: of the raw file.
    """
    every = results_of(content).outcomes
    now: dict[str, Arm] = {arm.name: arm for arm in study.arms(scale)}
    known: Collection[str] = content.get("changes", ())
    outcomes: dict[str, list[Outcome]] = {name: [] for name in now}
    void: list[Void] = []
    for name, own in every.items():
        if not own:
            continue
        plain = content["arms"][name]
        recipe = {**content.get("recipe", {}), **plain["recipe"]} if "recipe" in plain else None
        job = now[name].job if name in now else None
        why = "the study has no such arm any more" if job is None else _void(job, recipe, plain["job"], known)
        if why:
            void.append(Void(arm=name, cells=len(own), why=why))
            continue
        gone = {}
        if isinstance(job, Training) and recipe is not None:
            gone = _void_measures(job, recipe, plain["job"]["measures"], known)
        void += [Void(arm=name, cells=len(own), why=reason, measure=prefix) for prefix, reason in gone.items()]
        outcomes[name] = [_without(outcome, tuple(f"{prefix}/" for prefix in gone)) for outcome in own]
    return Results(outcomes=outcomes), void


def _void(
    job: Job, recipe: Mapping[str, Any] | None, recorded: Mapping[str, Any], known: Collection[str]
) -> str | None:
    """Why nothing of an arm counts any more; None where it does."""
    if not isinstance(job, Training):
        said = ("differs", "stand_in")  # of the source, which changes no figure
        if any(recorded.get(key) != value for key, value in plain_job(job).items() if key not in said):
            return "it computes something else now"
        touched = later_for(dataclasses.asdict(job.measure), recipe_of(job), known)
        return f"made before {' and '.join(touched)}" if touched else None
    if recipe is None:
        return "no recipe is on record"
    if touched := later(recipe, known):
        return f"made before {' and '.join(touched)}"
    changed = changed_keys(recipe, job)
    return f"the recipe has changed in {', '.join(changed)}" if changed else None


def _void_measures(
    job: Training, recipe: Mapping[str, Any], recorded: Sequence[Mapping[str, Any]], known: Collection[str]
) -> dict[str, str]:
    """Prefix of figures → why they do not count."""
    now = {measure_key(measure): measure.prefix for measure in job.measures}
    gone = {}
    for plain in recorded:
        measure = measure_of(plain)
        if measure is None or now.get(measure_key(measure)) != measure.prefix:
            gone[prefix_of(plain)] = "measured otherwise now"
        elif touched := later_for(plain, recipe, known):
            gone[measure.prefix] = f"made before {' and '.join(touched)}"
    return gone


def _without(outcome: Outcome, prefixes: tuple[str, ...]) -> Outcome:
    if not prefixes:
        return outcome
    return dataclasses.replace(
        outcome,
        figures={key: value for key, value in outcome.figures.items() if not key.startswith(prefixes)},
        series={key: value for key, value in outcome.series.items() if not key.startswith(prefixes)},
    )
