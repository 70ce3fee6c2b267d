"""Recipes as records keep them, and whether they still say the same."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from holdfast.training.recipe import Recipe
from holdfast_studies import changes
from holdfast_studies.jobs import Computation, Job, Training


def flat(plain: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Nested blocks by dotted keys: `{"model": {"dim": 128}}` is `{"model.dim": 128}`."""
    found: dict[str, Any] = {}
    for key, value in plain.items():
        found |= flat(value, f"{prefix}{key}.") if isinstance(value, Mapping) and value else {prefix + key: value}
    return found


def recipe_of(job: Job, seed: int = 0) -> dict[str, Any]:
    """All that a job's model depends on, by dotted keys; what it starts from as `start.KEY`."""
    if isinstance(job, Computation):
        named = {"data": job.data if isinstance(job.data, dict) or job.data is None else {"name": job.data}}
        return flat({key: value for key, value in named.items() if value} | {"model": {"backbone": job.backbone}})
    return _flat_job(job, seed, brief=False)


def changed_keys(recorded: Mapping[str, Any], job: Training, seed: int = 0) -> list[str]:
    """Keys of a recorded recipe (by dotted keys) that read otherwise today.

    A key that came later is no reason to run it again, as long as it has its default.
    """
    now, stated = _flat_job(job, seed, brief=False), _flat_job(job, seed, brief=True)
    said = {key: _today(key, value) for key, value in recorded.items()}
    gone = [key for key, value in said.items() if key not in now or now[key] != value]
    return gone + [key for key in stated if key not in recorded]


def common(recipes: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """What all of some recipes say alike."""
    first, *others = recipes or [{}]
    return {k: v for k, v in first.items() if all(k in other and other[k] == v for other in others)}


def later(recipe: Mapping[str, Any], known: Collection[str]) -> list[str]:
    """Changes of behaviour since a training that touch it, in words."""
    recipes = (recipe, {key.removeprefix("start."): value for key, value in recipe.items() if key.startswith("start.")})
    return [change.what for change in changes.since(known) if any(change.training(one) for one in recipes if one)]


def later_for(measure: Mapping[str, Any], recipe: Mapping[str, Any], known: Collection[str]) -> list[str]:
    """Changes of behaviour since a measure was taken that touch it, in words."""
    return [change.what for change in changes.since(known) if change.measure(recipe, measure)]


def _today(key: str, value: Any) -> Any:
    """A recorded value as it is written today."""
    before, now = changes.REWORDED.get(key, (None, None))
    return now if now is not None and value == before else value


def _flat_job(job: Training, seed: int, brief: bool) -> dict[str, Any]:
    recipe: Recipe = job.resolved(seed)
    own = flat(recipe.brief() if brief else recipe.plain())
    start = {} if job.start is None else _flat_job(job.start, seed, brief)
    return own | {f"start.{key}": value for key, value in start.items()}
