"""Arms of the ADML paper: one place, so that a model that several of its studies look at is trained once."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from holdfast.studies.catalogue.paper_settings import EPOCHS, PAPER, SEVERAL
from holdfast.studies.jobs import Arm, Audit, Measure, Scale, Training

POCKET: dict[str, Any] = {"epochs": 24, "evaluate_every": 24}
"""Over every arm with both parts of its loss."""

LONG_EPOCHS = 40
"""At paper scale: 2,080 steps, after which adversaries have had the time to tell."""

SHARED: dict[Scale, dict[str, Any]] = {
    "pocket": POCKET,
    "paper": {**PAPER, "epochs": LONG_EPOCHS, "evaluate_every": LONG_EPOCHS},
}

SHORT: dict[Scale, dict[str, Any]] = {"pocket": {}, "paper": {"epochs": EPOCHS, "evaluate_every": EPOCHS}}
"""Over models that stand for themselves (A1, A6)."""

R1_NOISE = 2.0
"""Points of clean R@1 that two arms may differ by with one seed and no cause: 1.645 × the pooled standard deviation of
a difference between arms, measured at pocket scale (1.2) without the triplet rows of A5, of which one moves by 9; no
more than this at paper scale."""

ATTACKED_NOISE = 4.0
"""The same of R@1 under an attack (2.4)."""

PARTS: dict[Scale, dict[str, Any]] = {"pocket": {"epochs": 12, "evaluate_every": 12}, "paper": PAPER}
"""Over the arms with one part of a loss (A6, A7), which need no long training."""

LIMITS: dict[Scale, int] = {"pocket": 500, "paper": 1000}
"""Images attacked one by one. Where the whole set is replaced, all are: a sample would leave few positives in it."""

GOALS = {"+T": "triplet", "+A": "alignment", "+U": "uniformity", "+A+U": "alignment-uniformity"}
"""Arm → what its adversaries want."""

RECIPES = {"standard": "resnet50-ms", "+T": "adml-t", "+A": "adml-a", "+U": "adml-u", "+A+U": "adml-au"}

LOSSES: dict[str, dict[str, Any]] = {
    "linear": {"name": "linear"},
    "triplet": {"name": "triplet", "squared": True, "miner": "distance"},
    "margin": {"name": "margin", "miner": "distance"},
    "multi-similarity": {"name": "multi-similarity", "miner": "multi-similarity"},
    "info-nce": {"name": "info-nce"},
}
"""As the paper has them, in the framework of Roth et al."""

BETA: dict[Scale, dict[str, Any]] = {"pocket": {"optimizer.loss_lr": 1e-2}, "paper": {"optimizer.loss_lr": 5e-4}}
"""Learning rate of the margin loss's β: as in the framework of Roth et al., and for the short trainings at pocket scale
so that β can travel as far (about its own length) as there."""

UNITS = {"regime.budget.units": "normalized"}
"""ε 0.0314 of the normalised image: half of it in pixels at pocket scale, under a quarter with ImageNet's deviation."""


MAIN_SEEDS: dict[Scale, tuple[int, ...] | None] = {"pocket": None, "paper": SEVERAL}
"""Of standard training and the kinds of adversaries: the paper's orders rest on differences of a few points."""


def fixed(scale: Scale) -> Audit:
    """ADML's attacks on single queries."""
    return Audit(protocol="adml", mode="fixed", limit=LIMITS[scale])


REPLACED = Audit(protocol="adml", mode="replaced")
"""ADML's attacks on the whole set."""


def arm(
    scale: Scale,
    name: str,
    settings: Mapping[str, Any] | None = None,
    *,
    kind: str | None = None,
    data: str | None = None,
    measures: tuple[Measure, ...] = (),
) -> Arm:
    """One model of the paper.

    Args:
        scale: pocket or paper.
        name: of the arm.
        settings: over the recipe and what the table shares.
        kind: key of `RECIPES`; the name when left out.
        data: in place of the scale's own.
        measures: of the trained model.
    """
    recipe = RECIPES[kind or name]
    if scale == "pocket":
        shipped, usual = "pocket" if recipe == "resnet50-ms" else f"{recipe}-pocket", "glyphs"
    else:
        shipped, usual = recipe, "cub"
    together = {**SHARED[scale], **(settings or {})}
    job = Training(recipe=shipped, data=data or usual, settings=together, measures=measures)
    main = name in RECIPES and not settings and data is None
    return Arm(name=name, job=job, seeds=MAIN_SEEDS[scale] if main else None)


def variants(scale: Scale, measures: tuple[Measure, ...] = ()) -> list[Arm]:
    """Standard training and the four kinds of adversaries, ε in pixel units."""
    return [arm(scale, name, measures=measures) for name in RECIPES]


def normalised(scale: Scale, measures: tuple[Measure, ...] = ()) -> list[Arm]:
    """+A and +U with ε in normalised units."""
    return [arm(scale, f"{kind} normalised", UNITS, kind=kind, measures=measures) for kind in ("+A", "+U")]


WEIGHTS: dict[float, str] = {
    0.0: "standard",
    0.03: "+A λ 0.03",
    0.1: "+A",
    0.3: "+A λ 0.3",
    1.0: "+A λ 1",
}
"""λ → arm: 0 is standard training, 0.1 is what the recipes have."""


def weighted(scale: Scale, least: float = 0.0, measures: tuple[Measure, ...] = ()) -> list[Arm]:
    """+A with every λ of `WEIGHTS` from `least` on for which no other arm stands."""
    own = {weight: name for weight, name in WEIGHTS.items() if "λ" in name and weight >= least}
    return [arm(scale, name, {"regime.weight": w}, kind="+A", measures=measures) for w, name in own.items()]


def by_loss(scale: Scale, loss: str) -> tuple[Arm, Arm]:
    """Standard training and +A with one of `LOSSES`; multi-similarity is the recipes' own."""
    if loss == "multi-similarity":
        return arm(scale, "standard"), arm(scale, "+A")
    own: dict[str, Any] = {"loss": LOSSES[loss]}
    if loss == "margin" and scale == "paper":
        own |= BETA["paper"]
    return arm(scale, loss, own, kind="standard"), arm(scale, f"{loss} +A", own, kind="+A")


def one_part(scale: Scale, loss: str, part: str, measures: tuple[Measure, ...] = ()) -> Arm:
    """A model that learns from one kind of pair only; a collapse is what may come out, and is no reason to stop."""
    block = {**LOSSES[loss], "part": part}
    settings = {**PARTS[scale], "loss": block, "on_collapse": "warn", **(BETA[scale] if loss == "margin" else {})}
    return arm(scale, f"{loss}, {part} only", settings, kind="standard", measures=measures)
