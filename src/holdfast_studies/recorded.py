"""Recipes as records keep them, and whether what was run with them is void today.

A recipe that reads otherwise today is found by comparing recipes. Where the code does something else for the same
recipe, the change stands in `CHANGES`, with the trainings and measures that it touches. Records name the changes that
they were made after; one that lacks a change that touches it is not shown and is run again.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, TypeAlias

from holdfast import mining
from holdfast_studies.jobs import Computation, Job, Training, flat

Flat: TypeAlias = Mapping[str, Any]
"""A resolved recipe by dotted keys; of a computation, `data.name` and `model.backbone` alone."""

SQUARE = ("glyphs", "digits", "mnist", "omniglot")
"""Datasets whose images are square, so that no way to make them so differs from another."""


def never(*_: Any) -> bool:
    """For changes that touch nothing of the kind."""
    return False


def photographs(recipe: Flat, *_: Any) -> bool:
    """Whether images may be wider than high, or higher than wide."""
    return recipe.get("data.name") not in (None, *SQUARE)


def decayed_loss(recipe: Flat) -> bool:
    """Whether weight decay fell on parameters of the loss."""
    learnt = ("arcface", "margin", "normalized-softmax", "proxy-anchor", "proxy-nca", "soft-triple", "s2sd")
    return recipe.get("loss.name") in learnt and recipe.get("optimizer.weight_decay", 0) > 0


def repeated_images(recipe: Flat) -> bool:
    """Whether batches of glyphs, ten images a class, show an image twice."""
    images = 10 * recipe.get("data.train_fraction", 1.0)
    fine = recipe.get("data.name") == "glyphs" and recipe.get("data.labels") == "fine"
    return fine and images < recipe.get("batch.per_class", 2)


def mined_destination(recipe: Flat) -> bool:
    """Whether hardness manipulation asks a miner how hard triplets are to become."""
    asked = [recipe.get(f"regime.destination{key}") for key in ("", ".name", ".of", ".of.name")]
    return recipe.get("regime.name") in ("hm", "free-hm") and any(name in mining.names() for name in asked)


def shifted(recipe: Flat) -> bool:
    """Whether images that learn are driven from where they were."""
    return recipe.get("regime.name") == "est" or "shift" in _named(recipe, "regime.goal")


def rates_of_updates(recipe: Flat) -> bool:
    """Whether the batches of one update have different learning rates."""
    constant = recipe.get("schedule.name", recipe.get("schedule")) == "constant" and not recipe.get("schedule.warmup")
    return recipe.get("accumulate", 1) > 1 and not constant


def _named(recipe: Flat, key: str) -> tuple[Any, Any]:
    """A block's name, written alone or inside it."""
    return recipe.get(key), recipe.get(f"{key}.name")


@dataclasses.dataclass(frozen=True)
class Change:
    """One change.

    Args:
        name: what records know it by.
        what: after "made before": a clause for pages.
        training: whether it touches the training of a recipe.
        measure: whether it touches a measure (as plain data) of a model of that recipe.
    """

    name: str
    what: str
    training: Callable[[Flat], bool] = never
    measure: Callable[[Flat, Mapping[str, Any]], bool] = never


def _audited(protocol: str) -> Callable[[Flat, Mapping[str, Any]], bool]:
    return lambda _, measure: measure.get("protocol") == protocol


CHANGES: tuple[Change, ...] = (
    Change("aspect", "photographs kept their shape", photographs, photographs),
    Change("loss-decay", "weight decay left parameters of the loss alone", decayed_loss),
    Change("copies", "copies of an image stopped being positives", repeated_images),
    Change(
        "easy-gate",
        "easy positives kept the gate of multi-similarity mining",
        lambda recipe: "multi-similarity" in _named(recipe, "loss.miner.negative"),
    ),
    Change(
        "released", "`released` was the released code's step", lambda recipe: recipe.get("regime.variant") == "released"
    ),
    Change("stax-start", "the larger ε of audit stax started where the smaller does", measure=_audited("stax")),
    Change("independent-draws", "source and destination miners drew independently", mined_destination),
    Change(
        "variance-of-means",
        "the variance of batch means was measured too",
        measure=lambda _, measure: measure.get("function") == "mined-hardness",
    ),
    Change(
        "shift",
        "the first step of a shift (ES, EST) went the other way, and CA- and QA- drew from a neighbour more",
        shifted,
        _audited("ers"),
    ),
    Change(
        "adml-batches",
        "audit adml attacked class-balanced batches, and the triplet loss with its hinge",
        measure=_audited("adml"),
    ),
    Change("mean-rate", "an update of several batches had the mean of their learning rates", rates_of_updates),
)
"""In the order they came. Add one where a change makes another model, or another figure, of the same recipe."""


REWORDED: dict[str, tuple[Any, Any]] = {"regime.statistics": (None, "eval")}
"""Key → a value as it was once written, and as it is written now; both mean the same."""


def names() -> list[str]:
    """Of all changes, for records made now."""
    return [change.name for change in CHANGES]


def since(known: Collection[str]) -> list[Change]:
    """The changes that a record does not name."""
    return [change for change in CHANGES if change.name not in known]


def recipe_of(job: Job, seed: int = 0) -> dict[str, Any]:
    """All that a job's model depends on, by dotted keys; what it starts from as `start.KEY`."""
    if isinstance(job, Computation):
        named = {"data": job.data if isinstance(job.data, dict) or job.data is None else {"name": job.data}}
        model = {"backbone": job.backbone, **(job.model or {})}
        return flat({key: value for key, value in named.items() if value} | {"model": model})
    return _flat_job(job, seed, brief=False)


def changed_keys(recorded: Mapping[str, Any], job: Training, seed: int = 0) -> list[str]:
    """Keys of a recorded recipe (by dotted keys) that read otherwise today.

    A key that came later is no reason to run it again, as long as it has its default.
    """
    now, stated = (_opened(_flat_job(job, seed, brief)) for brief in (False, True))
    before = _opened(recorded)
    said = {k: now.get(k) if (value, now.get(k)) == REWORDED.get(k) else value for k, value in before.items()}
    gone = [key for key, value in said.items() if key not in now or now[key] != value]
    return gone + [key for key in stated if key not in before]


def _opened(recipe: Flat) -> dict[str, Any]:
    """A recipe by dotted keys, blocks in lists by their numbers too: `extras.0.weight`."""
    numbered = {
        key: {str(number): block for number, block in enumerate(value)} if _are_blocks(value) else value
        for key, value in recipe.items()
    }
    return flat(numbered)


def _are_blocks(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(block, Mapping) for block in value)


def common(recipes: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """What all of some recipes say alike."""
    first, *others = recipes or [{}]
    return {k: v for k, v in first.items() if all(k in other and other[k] == v for other in others)}


def later(recipe: Mapping[str, Any], known: Collection[str]) -> list[str]:
    """Changes of behaviour since a training that touch it, in words."""
    recipes = (recipe, {key.removeprefix("start."): value for key, value in recipe.items() if key.startswith("start.")})
    return [change.what for change in since(known) if any(change.training(one) for one in recipes if one)]


def later_for(measure: Mapping[str, Any], recipe: Mapping[str, Any], known: Collection[str]) -> list[str]:
    """Changes of behaviour since a measure was taken that touch it, in words.

    Args:
        measure: as plain data.
        recipe: of the model, by dotted keys.
        known: names of changes that its record was made after.
    """
    return [change.what for change in since(known) if change.measure(recipe, measure)]


def _flat_job(job: Training, seed: int, brief: bool) -> dict[str, Any]:
    own = job.flat(seed, brief)
    start = {} if job.start is None else _flat_job(job.start, seed, brief)
    return own | {f"start.{key}": value for key, value in start.items()}
