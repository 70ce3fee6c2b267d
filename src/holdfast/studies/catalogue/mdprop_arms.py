"""Arms of the MDProp paper: one place, so that a model that several of its studies look at is trained once."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from holdfast.studies.catalogue.paper_settings import PAPER, budget
from holdfast.studies.catalogue.paper_settings import R1_NOISE as CUB_NOISE
from holdfast.studies.jobs import Audit, Measure, Scale, Training

POCKET: dict[str, Any] = {"epochs": 24, "evaluate_every": 24}

RECIPES = {
    "standard": "resnet50-ms-train",
    "AT": "at",
    "AdvProp-D": "advprop-d",
    "MDProp-1": "mdprop-1",
    "MDProp": "mdprop-2",
    "UX": "mdprop-ux",
    "standard, S2SD": "resnet50-s2sd",
    "MDProp, S2SD": "mdprop-2-s2sd",
}
"""Arm → recipe at paper size. `MDProp-1` has one extra BatchNorm set (T 3), `MDProp` has two (T 1 and 5)."""

SMALL = {"resnet50-ms-train": "pocket", "resnet50-s2sd": "s2sd-pocket"}
"""Pocket recipes that are not the paper's name with `-pocket`."""

RADII: dict[Scale, float] = {"pocket": 0.03, "paper": 0.01}
"""ε of training in normalised units, and of the attack: 0.01 of a picture of 32 pixels is next to nothing."""

STAX_FIXED, STAX_REPLACED = "stax-fixed/stax/R@1", "stax-replaced/stax/R@1"
R1_NOISE: dict[Scale, float] = {"pocket": 3.1, "paper": CUB_NOISE}
"""Points of clean R@1 that two arms may differ by with one seed and no cause: 1.645 × the pooled standard deviation of
a difference between arms (1.9 at pocket scale, where ArcFace and few images are the unsteady ones)."""

ATTACKED_NOISE = 6.4
"""The same of R@1 under single-target attacks at pocket scale (3.9)."""

AS_GOOD = 4.0
"""Points of clean R@1 by which an arm may lie lower and be called as good; one seed cannot tell less."""

ALL_CLASSES = {"data.validation": 0}
"""At paper scale, whatever the data: the training half is learnt whole and the last model is reported."""

BUDGET = f"{budget()} The paper's recipe has 125 epochs of 32 classes × 2 images."
"""For notes at paper scale."""


def fixed(scale: Scale) -> Audit:
    """Single- and multi-target queries against a clean gallery, at the ε of training."""
    return Audit(protocol="stax", limit=500 if scale == "pocket" else 1000, eps=_eps(scale))


def replaced(scale: Scale) -> Audit:
    """The whole test set moved, as in the paper's tables; a sample would leave few positives in it."""
    return Audit(protocol="stax", mode="replaced", eps=_eps(scale))


def training(
    scale: Scale,
    kind: str,
    settings: Mapping[str, Any] | None = None,
    *,
    data: str | dict[str, Any] | None = None,
    measures: tuple[Measure, ...] = (),
) -> Training:
    """One model of the paper.

    Args:
        scale: pocket or paper.
        kind: key of `RECIPES`.
        settings: over the recipe and what the tables share.
        data: in place of the scale's own; other datasets at paper size keep the epochs of the recipe.
        measures: of the trained model.
    """
    recipe = RECIPES[kind]
    chosen = data or ("glyphs" if scale == "pocket" else "cub")
    name = chosen if isinstance(chosen, str) else chosen["name"]
    shared = POCKET if scale == "pocket" else PAPER if name == "cub" else ALL_CLASSES
    return Training(
        recipe=SMALL.get(recipe, f"{recipe}-pocket") if scale == "pocket" else recipe,
        data=chosen,
        settings={**shared, **(settings or {})},
        measures=measures,
    )


def arcface(scale: Scale) -> dict[str, Any]:
    """The other loss of the paper; beside ResNet-50 its class vectors learn faster, as in the recipes of Roth et al."""
    return {"loss": {"name": "arcface"}, **({"optimizer.loss_lr": 5e-4} if scale == "paper" else {})}


def towards(scale: Scale, **targets: int) -> dict[str, Any]:
    """Settings of MDProp whose sets are given by name with the number of targets of their images."""
    eps = RADII[scale]
    budget = {"eps": eps, "units": "normalized", "steps": 1, "start": "uniform", "start_radius": eps / 20}
    goals = {
        name: "single-target" if count == 1 else {"name": "multi-target", "targets": count}
        for name, count in targets.items()
    }
    return {"regime.distributions": [{"name": name, "goal": goal, "budget": budget} for name, goal in goals.items()]}


def _eps(scale: Scale) -> str | None:
    return f"{RADII[scale]:g}" if scale == "pocket" else None
