"""Changes of behaviour that no recipe shows: what was run before them is void.

A recipe that reads otherwise today is found by comparing recipes (`holdfast_studies.recorded`). Where the code does
something else for the same recipe, the change stands here, with the trainings and measures that it touches. Records
name the changes that they were made after; one that lacks a change that touches it is not shown and is run again.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection, Mapping
from typing import Any, TypeAlias

from holdfast import mining

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
    own = recipe.get("loss.name") in (
        *("arcface", "margin", "normalized-softmax", "proxy-anchor", "proxy-nca", "soft-triple", "s2sd"),
    )
    return own and recipe.get("optimizer.weight_decay", 0) > 0


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
    goals = (recipe.get("regime.goal"), recipe.get("regime.goal.name"))
    return recipe.get("regime.name") == "est" or "shift" in goals


@dataclasses.dataclass(frozen=True, kw_only=True)
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


CHANGES: tuple[Change, ...] = (
    Change(
        name="aspect",
        what="photographs kept their shape",
        training=photographs,
        measure=photographs,
    ),
    Change(name="loss-decay", what="weight decay left parameters of the loss alone", training=decayed_loss),
    Change(name="copies", what="copies of an image stopped being positives", training=repeated_images),
    Change(
        name="easy-gate",
        what="easy positives kept the gate of multi-similarity mining",
        training=lambda recipe: (
            "multi-similarity"
            in (
                recipe.get("loss.miner.negative"),
                recipe.get("loss.miner.negative.name"),
            )
        ),
    ),
    Change(
        name="released",
        what="`released` was the released code's step",
        training=lambda recipe: recipe.get("regime.variant") == "released",
    ),
    Change(
        name="stax-start",
        what="the larger radius of audit stax started where the smaller does",
        measure=lambda _, measure: measure.get("protocol") == "stax",
    ),
    Change(
        name="independent-draws",
        what="source and destination miners drew independently",
        training=mined_destination,
    ),
    Change(
        name="variance-of-means",
        what="the variance of batch means was measured too",
        measure=lambda _, measure: measure.get("function") == "mined-hardness",
    ),
    Change(
        name="shift",
        what="the first step of a shift (ES, EST) went the other way, and CA- and QA- drew from a neighbour more",
        training=shifted,
        measure=lambda _, measure: measure.get("protocol") == "ers",
    ),
    Change(
        name="adml-batches",
        what="audit adml attacked class-balanced batches, and the triplet loss with its hinge",
        measure=lambda _, measure: measure.get("protocol") == "adml",
    ),
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
