"""Arms of the ADML paper: one place, so that a model that several of its studies look at is trained once."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from holdfast_studies.jobs import Arm, AuditMeasure, Measure, Scale, Training

NORMALISED, PIXELS = "ε normalised", "ε in pixels"
"""Readings: the paper does not say in which units its ε 0.0314 is, and whichever it is holds for all of its tables."""

UNITS = {NORMALISED: "normalized", PIXELS: "pixel"}
USUAL: dict[Scale, str] = {"pocket": PIXELS, "paper": NORMALISED}
"""What the recipes have: those of the paper as its framework attacks, normalised tensors; half of ε would be left of it
at pocket scale, where a network divides by a deviation of one half."""

OTHER: dict[Scale, str] = {"pocket": NORMALISED, "paper": PIXELS}
SUFFIX = {NORMALISED: "normalised", PIXELS: "pixels"}
"""Of the names of arms in the reading that is not usual."""

POCKET: dict[str, Any] = {"epochs": 24, "evaluate_every": 24}
WHOLE: dict[Scale, dict[str, Any]] = {"pocket": POCKET, "paper": {}}
"""At paper scale the recipe's own 100 epochs."""

HALF_EPOCHS = 50
HALF: dict[Scale, dict[str, Any]] = {"pocket": POCKET, "paper": {"epochs": HALF_EPOCHS}}
"""Over the arms of series and of other losses."""

TUNED_MARK, HALF_MARK = "tuned", "half"
"""In the names of arms: on the ground of `resnet50-ms-tuned`, or of half the length."""

LIMITS: dict[Scale, int] = {"pocket": 500, "paper": 1000}
"""Images attacked one by one. Where the whole set is replaced, all are: a sample would leave few positives in it."""

SINGLE = AuditMeasure(protocol="adml", mode="fixed", limit=LIMITS["pocket"])
"""ADML's attacks on single queries, in pixels."""

MARGIN = 0.2
"""Hinge of the triplet loss that +T attacks."""

GOALS: dict[str, dict[str, Any]] = {
    "+T": {"name": "triplet", "margin": MARGIN},
    "+A": {"name": "alignment"},
    "+U": {"name": "uniformity"},
    "+A+U": {"name": "alignment-uniformity"},
}
"""Arm → what its adversaries want."""

TUNED: dict[str, Any] = {
    "model.dim": 512,
    "batch": {"classes": 28, "per_class": 4},
    "optimizer.lr": 3e-5,
    "schedule": {"name": "cosine"},
    "epochs": 40,
}
"""What the recipes `-tuned` change in the setting of Roth et al.: 2,080 steps on CUB. Rate and batch were chosen on
validation classes (a fifth of the training half of CUB), before any test figure was seen, and with standard training
only, among Adam at 1e-5 (constant), 3e-5 and 1e-4 (cosine) with 56 × 2 images, and 3e-5 with 28 × 4: the best
validation R@1 of four looks was 83.8, 83.1, 82.4 and 85.7 (one seed, 20 classes, 128 dims; 83.8, 82.3, 82.3 and 84.9 at
the end). Its 512 dims and its length were taken after test figures of single runs."""

SEVERAL: tuple[int, ...] = (0, 1, 2)
"""Seeds of the arms at paper scale whose published differences are smaller than what one seed can tell."""

RECIPES = {"standard": "resnet50-ms", "+T": "adml-t", "+A": "adml-a", "+U": "adml-u", "+A+U": "adml-au"}
TUNED_RECIPES = {"standard": "resnet50-ms-tuned", "+A": "adml-a-tuned"}


def audit(reading: str, batches: str = "56x2") -> AuditMeasure:
    """ADML's attacks on the whole set, in batches of some make-up."""
    units = UNITS[reading]
    settings = {"units": units, "batches": batches}
    return AuditMeasure(protocol="adml", mode="replaced", settings=settings, name=f"adml-{batches}-{units}")


def attacks(scale: Scale) -> dict[str, AuditMeasure]:
    """Reading → attacks, for a model that learnt from none: both units, the framework's batches and the other ones.

    The paper says that batches are class-balanced; its framework makes them of 56 classes, and 28 × 4 comes nearest to
    what it prints. At pocket scale single queries are attacked too.
    """
    whole = {reading: audit(reading) for reading in UNITS}
    whole |= {f"{reading}, batches 28 × 4": audit(reading, "28x4") for reading in UNITS}
    return whole if scale == "paper" else {**whole, f"{USUAL[scale]}, single queries": SINGLE}


def arm(
    scale: Scale,
    kind: str,
    name: str | None = None,
    *,
    reading: str | None = None,
    row: Mapping[str, Any] | None = None,
    settings: Mapping[str, Any] | None = None,
    recipe: str | None = None,
    data: str | None = None,
    measures: tuple[Measure, ...] = (),
    seeds: tuple[int, ...] | None = None,
) -> Arm:
    """One model of the paper.

    Args:
        scale: pocket or paper.
        kind: key of `RECIPES`.
        name: of the arm; the kind, with the reading where that is not the usual, when left out.
        reading: of ε; the usual one when left out. Standard training has none.
        row: what the paper has for this row of a table, over the recipe.
        settings: of ours, over both; those of a whole training when left out.
        recipe: in place of the kind's own at paper scale.
        data: in place of the scale's own.
        measures: of the trained model.
        seeds: in place of those of the scale.
    """
    plain, units = kind == "standard", reading or USUAL[scale]
    if scale == "pocket":
        shipped, usual = "pocket" if plain else f"{RECIPES[kind]}-pocket", "glyphs"
    else:
        shipped, usual = recipe or RECIPES[kind], "cub"
    other = {} if plain or units == USUAL[scale] else {"regime.budget.units": UNITS[units]}
    over = WHOLE[scale] if settings is None else settings
    job = Training(shipped, data or usual, {**other, **(row or {})}, {**over}, measures)
    return Arm(name or (kind if plain else in_units(scale, kind, units)), job, seeds, "" if plain else units)


def in_units(scale: Scale, kind: str, reading: str) -> str:
    """The name of a kind of adversaries with ε in some units."""
    return kind if reading == USUAL[scale] else f"{kind} {SUFFIX[reading]}"


def half(scale: Scale, measures: tuple[Measure, ...] = ()) -> Arm:
    """Standard training of half the length; at pocket scale all have one length."""
    name = "standard" if scale == "pocket" else f"standard, {HALF_MARK}"
    return arm(scale, "standard", name, settings=HALF[scale], measures=measures)


def variants(scale: Scale, kinds: tuple[str, ...] = tuple(RECIPES), measures: tuple[Measure, ...] = ()) -> list[Arm]:
    """Standard training and kinds of adversaries, in the usual units."""
    return [arm(scale, kind, measures=measures) for kind in kinds]


def others(scale: Scale, kinds: tuple[str, ...] = ("+A", "+U"), measures: tuple[Measure, ...] = ()) -> list[Arm]:
    """Kinds of adversaries with ε in the other units."""
    return [arm(scale, kind, reading=OTHER[scale], measures=measures) for kind in kinds]


def tuned() -> list[Arm]:
    """On ground of ours on CUB, where standard training reaches what the paper prints: all kinds, and +A in pixels."""
    kinds = [(kind, None) for kind in RECIPES] + [("+A", PIXELS)]
    found = []
    for kind, reading in kinds:
        recipe, settings = (TUNED_RECIPES[kind], {}) if kind in TUNED_RECIPES else (RECIPES[kind], TUNED)
        name = f"{TUNED_MARK} {kind}" + (f" {SUFFIX[reading]}" if reading else "")
        found.append(arm("paper", kind, name, reading=reading, settings=settings, recipe=recipe, seeds=SEVERAL))
    return found


WEIGHTS: dict[Scale, dict[str, tuple[float, ...]]] = {
    "pocket": {"+A": (0.03, 0.1, 0.3, 1.0)},
    "paper": {"+A": (0.1, 0.2, 0.4, 0.6, 0.8, 1.0), "+U": (0.1, 0.2, 0.4, 0.6, 0.8, 1.0)},
}
"""Kind → λ. At pocket scale 0.1 is what the recipes have, and that arm is the main one."""


def series(scale: Scale, kind: str) -> dict[float, str]:
    """λ → arm, from standard training on."""
    if scale == "pocket":
        return {0.0: "standard"} | {w: kind if w == 0.1 else f"{kind} λ {w:g}" for w in WEIGHTS[scale][kind]}
    return {0.0: f"standard, {HALF_MARK}"} | {w: f"{kind} λ {w:g}" for w in WEIGHTS[scale][kind]}


def weighted(scale: Scale, weights: tuple[float, ...], measures: tuple[Measure, ...] = ()) -> list[Arm]:
    """Standard training and every kind with some λ, all of one length."""
    found = {"": half(scale, measures)}
    for kind in WEIGHTS[scale]:
        for weight, name in series(scale, kind).items():
            if weight in weights:
                row = {} if scale == "pocket" and weight == 0.1 else {"regime.weight": weight}
                found[name] = arm(scale, kind, name, row=row, settings=HALF[scale], measures=measures)
    return list(found.values())


LOSSES: dict[str, dict[str, Any]] = {
    "linear": {"name": "linear"},
    "triplet": {"name": "triplet", "squared": True, "miner": "distance"},
    "margin": {"name": "margin", "miner": "distance"},
    "multi-similarity": {},
    "info-nce": {"name": "info-nce"},
}
"""As the paper has them, in the framework of Roth et al.; multi-similarity is the recipes' own."""

BETA: dict[Scale, dict[str, Any]] = {"pocket": {"optimizer.loss_lr": 1e-2}, "paper": {"optimizer.loss_lr": 5e-4}}
"""Learning rate of the margin loss's β: as in the framework of Roth et al., and for the short trainings at pocket scale
so that β can travel as far (about its own length) as there."""

PARTS: dict[Scale, dict[str, Any]] = {"pocket": {"epochs": 12, "evaluate_every": 12}, "paper": {"evaluate_every": 25}}
"""Over the arms with one part of a loss (A6, A7), which need no long training: the paper gives them 50 epochs."""

PARTS_ROW: dict[Scale, dict[str, Any]] = {"pocket": {}, "paper": {"epochs": 50}}


def loss_row(scale: Scale, loss: str) -> dict[str, Any]:
    """What a row of the paper's tables with one of `LOSSES` has over the recipe; nothing for multi-similarity."""
    own = LOSSES[loss]
    return {"loss": own, **(BETA["paper"] if loss == "margin" and scale == "paper" else {})} if own else {}


def one_part(scale: Scale, loss: str, part: str, measures: tuple[Measure, ...] = ()) -> Arm:
    """A model that learns from one kind of pair only; a collapse is what may come out, and is no reason to stop."""
    own = LOSSES[loss] or {"name": "multi-similarity", "miner": "multi-similarity"}
    if scale == "paper" and not LOSSES[loss]:
        own = {**own, "reduction": "mined"}
    beta = BETA[scale] if loss == "margin" else {}
    row = {**PARTS_ROW[scale], "loss": {**own, "part": part}, **beta}
    settings = {**PARTS[scale], "on_collapse": "warn"}
    return arm(scale, "standard", f"{loss}, {part} only", row=row, settings=settings, measures=measures)
