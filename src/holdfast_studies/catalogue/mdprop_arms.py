"""Arms of the MDProp paper: one place, so that a model that several of its studies look at is trained once."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from holdfast.training.recipe_files import read_plain
from holdfast_studies.declared import paper
from holdfast_studies.jobs import Arm, AuditMeasure, Measure, Scale, Training

_ARMS, _WORDS = paper("mdprop")["arms"], paper("mdprop")["words"]
RECIPES, SETTINGS, EPS = _ARMS["recipes"], _ARMS["settings"], _ARMS["eps"]
METHODS: dict[Scale, list[str]] = _WORDS["methods"]
BASELINES: dict[Scale, dict[str, str]] = {
    scale: {row["baseline"]: row["reading"] for row in rows} for scale, rows in _WORDS["baselines"].items()
}
"""Standard training → reading."""


def fixed(scale: Scale) -> AuditMeasure:
    """Single- and multi-target queries against a clean gallery, at the ε of training."""
    return AuditMeasure(protocol="stax", limit=500 if scale == "pocket" else 1000, eps=_eps(scale))


def replaced(scale: Scale) -> AuditMeasure:
    """The whole test set attacked with one target, as in the paper's tables; a sample would leave few positives."""
    return AuditMeasure(protocol="stax", mode="replaced", eps=_eps(scale), settings={"only": ["stax"]})


def training(
    scale: Scale,
    kind: str,
    row: Mapping[str, Any] | None = None,
    *,
    data: str | None = None,
    measures: tuple[Measure, ...] = (),
) -> Training:
    """One model of the paper.

    Args:
        scale: pocket or paper.
        kind: key of `RECIPES`.
        row: what the paper has for this row of a table, over the recipe.
        data: in place of the scale's own; Online Products has recipes of its own.
        measures: of the trained model.
    """
    recipe, over = RECIPES[kind], SETTINGS[scale]
    if scale == "pocket":
        small = "pocket" if kind == "standard" else f"{recipe}-pocket"
        return Training(small, "glyphs", {**(row or {})}, over, measures)
    return Training(f"{recipe}-sop" if data == "sop" else recipe, data or "cub", {**(row or {})}, over, measures)


def named(scale: Scale, jobs: Mapping[str, Training], seeds: tuple[int, ...] | None = None) -> list[Arm]:
    """Arms by name, in order, baselines with the reading they are of; `seeds` where they are not the scale's."""
    longest = sorted(BASELINES[scale].items(), key=lambda one: -len(one[0]))  # one is the beginning of the other
    readings = {name: next((said for start, said in longest if name.startswith(start)), "") for name in jobs}
    return [Arm(name, job, seeds, readings[name]) for name, job in jobs.items()]


def arcface(scale: Scale) -> dict[str, Any]:
    """The other loss of the paper; beside ResNet-50 its class vectors learn faster, as in the recipes of Roth et al."""
    return {"loss": {"name": "arcface"}, **({"optimizer.loss_lr": 5e-4} if scale == "paper" else {})}


def s2sd(scale: Scale) -> dict[str, Any]:
    """Wider heads beside the embedding, as the recipes that ship have them."""
    return {"loss": read_plain("s2sd-pocket" if scale == "pocket" else "resnet50-s2sd")["loss"]}


def towards(scale: Scale, **targets: int) -> dict[str, Any]:
    """A row of MDProp whose sets are given by name with the number of targets of their images; 0 is the own class."""
    eps = EPS[scale]
    budget = {"eps": eps, "units": "normalized", "steps": 1, "start": "uniform", "start_radius": eps / 20}
    goals: dict[int, Any] = {0: {"name": "unadversarial", "targets": 1}, 1: "single-target"}
    return {
        "regime.distributions": [
            {"name": name, "goal": goals.get(count, {"name": "multi-target", "targets": count}), "budget": budget}
            for name, count in targets.items()
        ]
    }


def _eps(scale: Scale) -> str | None:
    return f"{EPS[scale]:g}" if scale == "pocket" else None
