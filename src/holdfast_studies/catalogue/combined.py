"""X1: easy positives, a direct gradient, hardness manipulation and separate BatchNorm in one recipe."""

from __future__ import annotations

import dataclasses
from typing import Any

from holdfast.training.recipe_files import read_plain
from holdfast_studies.base import Study, register
from holdfast_studies.catalogue import easy_positives_arms, hardness_arms, mdprop_arms
from holdfast_studies.catalogue.combined_rule import ChosenBeatsEach, Figure
from holdfast_studies.catalogue.hardness_arms import ERS, ERS_NOISE, R1_NOISE
from holdfast_studies.catalogue.paper_settings import MOBILENET, SEVERAL, budget
from holdfast_studies.claims import Claim
from holdfast_studies.drawings import Bars, Drawing, Scatter
from holdfast_studies.jobs import Arm, Audit, Measure, Scale, Training

HM, EPS, DIRECT, SETS = "HM", "EPS", "direct gradient", "separate BatchNorm"
PARTS = (EPS, DIRECT, HM, SETS)
IDEAS: tuple[tuple[str, ...], ...] = (
    (EPS, HM),
    (DIRECT, HM),
    (HM, SETS),
    (EPS, DIRECT, HM),
    (DIRECT, HM, SETS),
    PARTS,
)
"""Combinations: all have the one idea that brings ERS."""
COMBINATIONS = tuple(" + ".join(ideas) for ideas in IDEAS)
FIGURES = (
    Figure(test="R@1", validation="log/validation R@1", noise=R1_NOISE, equal=1.0),
    Figure(test=ERS, validation="val-ers/ERS", noise=ERS_NOISE, equal=1.5),
)
GRADIENT = {"name": "gradient", "rule": "best", "miner": "ephn"}
ICS = 0.5
"""Weight of HM's intra-class structure term: its paper's best form, alone and in combinations."""
FOUR: dict[Scale, dict[str, Any]] = {
    "pocket": {},
    "paper": {**MOBILENET, "batch": {"classes": 28, "per_class": 4}, "data.validation": 0.2},
}
"""HM's batches have pairs, among which there is nothing to choose a nearest positive from; and combinations are chosen
on classes that are kept for it."""


@register("X1")
class Combined(Study):
    """One recipe of four papers beats each alone."""

    id = "X1"
    source = "beyond the papers"
    published = "none yet"
    ours = True

    def arms(self, scale: Scale) -> list[Arm]:
        """Each idea as its paper trains it, then six combinations."""
        alone = {
            EPS: _eps(scale),
            DIRECT: _direct(scale),
            HM: _combined(scale, (HM,)),
            SETS: _sets(scale),
        }
        together = {name: _combined(scale, ideas) for name, ideas in zip(COMBINATIONS, IDEAS, strict=True)}
        return [
            Arm(
                name=name,
                job=dataclasses.replace(job, measures=_measures()),
                seeds=SEVERAL if scale == "paper" else None,
            )
            for name, job in {**alone, **together}.items()
        ]

    def claims(self, scale: Scale) -> list[Claim]:
        """One, about the combination that the validation classes choose."""
        return [
            ChosenBeatsEach(
                text="the combination chosen on validation classes beats EPS, the direct gradient, HM and MDProp, each "
                "alone, on clean R@1 at equal ERS or on ERS at equal clean R@1",
                parts=PARTS,
                combinations=COMBINATIONS,
                figures=FIGURES,
            )
        ]

    def columns(self, scale: Scale) -> dict[str, str]:
        """What chooses, what judges, and the cost."""
        return {
            "validation R@1": FIGURES[0].validation,
            "validation ERS": FIGURES[1].validation,
            "R@1": "R@1",
            "ERS": ERS,
            "passes": "log/passes",
        }

    def drawings(self, scale: Scale) -> list[Drawing]:
        """Clean R@1 and ERS against each other."""
        arms = (*PARTS, *COMBINATIONS)
        return [
            Scatter(title="Clean and robust, test classes", arms=arms, x="R@1", y=ERS),
            Bars(title="R@1 and ERS by arm, test classes", arms=arms, figures={"R@1": "R@1", "ERS": ERS}),
        ]

    def notes(self, scale: Scale) -> str:
        """How the ideas are put together."""
        lines = (
            "HM is HM[S, LGA]&ICS, and the start of every combination. EPS in it: the source takes the nearest "
            "positive, and softhard's negatives. Direct gradient: the rule `best` in the place of the triplet loss, "
            "on HM's triplets. Separate BatchNorm: the clean batch is learnt too, and moved triplets have their own "
            "set. EPS alone is triplets with semihard negatives, the direct gradient alone `best` on its own "
            "triplets, separate BatchNorm alone MDProp with two extra sets. Validation classes are nearly saturated in "
            "R@1 where training goes well, so that ERS decides most of the choice. "
        )
        if scale == "pocket":
            return lines + "The direct gradient alone has the learning rate of its recipe, 1e-2; all others 3e-3."
        return (
            f"{lines}All on HM's ground: MobileNetV2, 512 dims, squashed images; where there are sets, BatchNorm "
            f"learns. A fifth of the training classes is kept for the choice. {budget(rate='Adam at 1e-4')}"
        )


def _combined(scale: Scale, ideas: tuple[str, ...]) -> Training:
    """HM with other ideas."""
    base = hardness_arms.hm(scale, regime={"ics": ICS})
    settings: dict[str, Any] = {**base.settings, **FOUR[scale]}
    if EPS in ideas:
        own = base.row["regime.source"]
        anchors = {} if scale == "pocket" else {"anchors": "first"}
        settings["regime.source"] = {"name": "easy-positive", "negative": own, **anchors}
    if DIRECT in ideas:
        settings["loss"] = GRADIENT
    if SETS in ideas:
        settings |= {"regime.separate": True, "model.batchnorm": "train"}
    return dataclasses.replace(base, settings=settings)


def _eps(scale: Scale) -> Training:
    loss = easy_positives_arms.LOSSES["triplet"].easy["loss"]
    if scale == "paper":
        return hardness_arms.trained(scale, "resnet18-triplet", {"loss": loss}, over=FOUR[scale])
    job = easy_positives_arms.GLYPHS.arm("triplet + EPS", {"loss": loss}).job
    assert isinstance(job, Training)
    return job


def _direct(scale: Scale) -> Training:
    if scale == "paper":
        return hardness_arms.trained(scale, "resnet18-triplet", {"loss": GRADIENT}, over=FOUR[scale])
    return Training(recipe="gs-pocket", settings=mdprop_arms.SHORT["pocket"])


def _sets(scale: Scale) -> Training:
    if scale == "pocket":
        return mdprop_arms.training(scale, "MDProp")
    mdprop = read_plain("mdprop-2")
    method = {"loss": mdprop["loss"], "regime": mdprop["regime"], "model.batchnorm": "train"}
    return hardness_arms.trained(scale, "resnet18-triplet", {}, over={**FOUR[scale], **method})


def _measures() -> tuple[Measure, ...]:
    """ERS on the test classes, and on the validation classes."""
    return hardness_arms.FIXED, Audit(split="val", limit=hardness_arms.AUDITED, name="val-ers")
