"""Arms of the ADML paper: one place, so that a model that several of its studies look at is trained once."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from holdfast_studies.declared import paper
from holdfast_studies.jobs import Arm, AuditMeasure, Measure, Scale, Training

NORMALISED, PIXELS = "ε normalised", "ε in pixels"
"""Readings: the paper does not say in which units its ε 0.0314 is, and whichever it is holds for all of its tables."""

UNITS = {NORMALISED: "normalized", PIXELS: "pixel"}
USUAL, OTHER = paper("adml")["words"]["usual"], paper("adml")["words"]["other"]
SUFFIX = {NORMALISED: "normalised", PIXELS: "pixels"}
"""Of the names of arms in the reading that is not usual."""

_ARMS = paper("adml")["arms"]
WHOLE, HALF, PARTS, PARTS_ROW, BETA = (_ARMS[key] for key in ("whole", "half", "parts", "parts_row", "beta"))
"""Scale → what is laid over recipes."""
ELSEWHERE: Mapping[str, Mapping[str, Any]] = _ARMS["elsewhere"]
"""Dataset → what is laid over recipes."""

RECIPES, TUNED_RECIPES, TUNED, GOALS = (_ARMS[key] for key in ("recipes", "tuned_recipes", "tuned", "goals"))
BALANCED: Mapping[str, Any] = _ARMS["balanced"]
PHOTOGRAPHS: Mapping[str, Any] = _ARMS["whole_photographs"]
WEIGHTS, LOSSES, LIMITS = _ARMS["weights"], _ARMS["losses"], _ARMS["limits"]
TUNED_MARK, HALF_MARK = "tuned", "half"
"""In the names of arms: on the ground of `resnet50-ms-tuned`, or of half the length."""

SINGLE = AuditMeasure(protocol="adml", mode="fixed", limit=LIMITS["pocket"])
"""ADML's attacks on single queries, in pixels."""

SEVERAL: tuple[int, ...] = (0, 1, 2)
"""Seeds of the arms at paper scale whose published differences are smaller than what one seed can tell."""


def audit(reading: str, batches: str = "56x2") -> AuditMeasure:
    """ADML's attacks on the whole set, in batches of some make-up."""
    units = UNITS[reading]
    settings = {"units": units, "batches": batches}
    return AuditMeasure(protocol="adml", mode="replaced", settings=settings, name=f"adml-{batches}-{units}")


def attacks(scale: Scale) -> dict[str, AuditMeasure]:
    """Reading → attacks, for a model that learnt from none: both units, batches of 56 × 2 and of 28 × 4.

    The paper says that batches are class-balanced, and not of what; 28 × 4 comes nearest to what it prints. At pocket
    scale single queries are attacked too.
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


def tuned(kind: str, reading: str | None = None, measures: tuple[Measure, ...] = ()) -> Arm:
    """A kind on ground of ours on CUB, where standard training reaches what the paper prints."""
    recipe, settings = (TUNED_RECIPES[kind], {}) if kind in TUNED_RECIPES else (RECIPES[kind], TUNED)
    name = f"{TUNED_MARK} {kind}" + (f" {SUFFIX[reading]}" if reading else "")
    ground = {"settings": settings, "recipe": recipe, "seeds": SEVERAL}
    return arm("paper", kind, name, reading=reading, measures=measures, **ground)


def elsewhere(
    data: str,
    prefix: str,
    kinds: tuple[str, ...],
    ground: Mapping[str, Any] | None = None,
    measures: tuple[Measure, ...] = (),
) -> list[Arm]:
    """Kinds on another dataset, with its own weight and attack.

    Args:
        data: a dataset of the paper's file that has settings of its own.
        prefix: of the names of its arms.
        kinds: keys of `RECIPES`.
        ground: settings in the place of the dataset's own.
        measures: of the trained models.
    """
    found = []
    for kind in kinds:
        recipe, row = RECIPES[kind], {}
        if kind != "standard" and data == "cars":
            recipe = f"{recipe}-cars"
        elif kind != "standard":
            recipe, row = f"adml-a-{data}", {"regime.goal": {**GOALS[kind], "reference": "joint"}}
        settings = ELSEWHERE[data] if ground is None else ground
        over = {"row": row, "settings": settings, "recipe": recipe, "data": data, "measures": measures}
        found.append(arm("paper", kind, f"{prefix}{kind}", **over))
    return found


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
