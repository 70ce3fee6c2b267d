"""Beyond the papers: four ideas in one recipe (X1), hardness manipulation without crafting (X2)."""

from __future__ import annotations

import dataclasses
from typing import Any

from holdfast.training.recipe_files import read_plain
from holdfast_studies.base import Plan, study
from holdfast_studies.catalogue import easy_positives_arms, hardness_arms, mdprop_arms
from holdfast_studies.catalogue.finals import for_epochs, tested_against
from holdfast_studies.catalogue.prices import Price, priced
from holdfast_studies.catalogue.rules import ChosenBeatsEach, Figure
from holdfast_studies.claims import Claim, Ordered
from holdfast_studies.declared import paper
from holdfast_studies.jobs import Arm, AuditMeasure, Measure, Probe, Scale, Training

HM, EPS, DIRECT, SETS = "HM", "EPS", "direct gradient", "separate BatchNorm"
PARTS = (EPS, DIRECT, HM, SETS)
IDEAS: tuple[tuple[str, ...], ...] = ((EPS, HM), (DIRECT, HM), (HM, SETS), (EPS, DIRECT, HM), (DIRECT, HM, SETS), PARTS)
"""Combinations: all have the one idea that brings ERS."""
COMBINATIONS = tuple(" + ".join(ideas) for ideas in IDEAS)
_R1_NOISE, _ERS_NOISE = hardness_arms.noise_of_validation()
FIGURES = (
    Figure("R@1", "log/validation R@1", noise=_R1_NOISE, equal=1.0),
    Figure(hardness_arms.ERS, "val-ers/ERS", noise=_ERS_NOISE, equal=1.5),
)
GRADIENT = {"name": "gradient", "rule": "best", "miner": "ephn"}
ICS = 0.5
"""Weight of HM's intra-class structure term: its paper's best form, alone and in combinations."""
COMBINED, CRAFTED = (paper("beyond")["arms"][key] for key in ("combined", "crafted"))
"""Scale → settings over HM's recipes, and over these where HM crafts."""


@study("X1")
def combined(scale: Scale) -> Plan:
    """One recipe of four papers beats each alone."""
    jobs = {EPS: _eps(scale), DIRECT: _direct(scale), HM: _combined(scale, (HM,)), SETS: _sets(scale)}
    jobs |= {name: _combined(scale, ideas) for name, ideas in zip(COMBINATIONS, IDEAS, strict=True)}
    measures = (hardness_arms.FIXED, AuditMeasure(split="val", limit=hardness_arms.AUDITED, name="val-ers"))
    return Plan(
        [Arm(name, dataclasses.replace(job, measures=measures)) for name, job in jobs.items()],
        [
            ChosenBeatsEach(
                "the combination chosen on validation classes beats EPS, the direct gradient, HM and MDProp, each "
                "alone, on clean R@1 at equal ERS or on ERS at equal clean R@1",
                PARTS,
                COMBINATIONS,
                FIGURES,
            )
        ],
    )


def _combined(scale: Scale, ideas: tuple[str, ...]) -> Training:
    """HM with other ideas."""
    base = hardness_arms.hm(scale, regime={"ics": ICS})
    settings: dict[str, Any] = {**base.settings, **COMBINED[scale], **CRAFTED[scale]}
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
        return hardness_arms.trained(scale, "resnet18-triplet", {"loss": loss}, over=COMBINED[scale])
    return easy_positives_arms.GLYPHS.training({"loss": loss})


def _direct(scale: Scale) -> Training:
    if scale == "paper":
        return hardness_arms.trained(scale, "resnet18-triplet", {"loss": GRADIENT}, over=COMBINED[scale])
    return Training("gs-pocket", settings=mdprop_arms.SETTINGS["pocket"])


def _sets(scale: Scale) -> Training:
    if scale == "pocket":
        return mdprop_arms.training(scale, "MDProp")
    mdprop = read_plain("mdprop-2")
    method = {"loss": mdprop["loss"], "regime": mdprop["regime"], "model.batchnorm": "train"}
    return hardness_arms.trained(scale, "resnet18-triplet", {}, over={**COMBINED[scale], **method})


REPLAYS = 4
LESS, ALIKE = 2 / 3, 1.2
"""Shares of the passes of HM."""
AS_ROBUST, AS_GOOD = 3.0, 5.0
"""ERS by which an arm may lie lower and be called as robust, points of R@1 by which it may and be said to keep it."""
FREE_HM = {"name": "free-hm", "destination": "lga", "replays": REPLAYS, "eps": "8/255", "step": "4/255"}
WHOLE, HALF = "HM[S, LGA]", "HM[S, LGA], half the epochs"
FREE, FREE_HALF, FREE_EPOCHS = "free HM, equal passes", "free HM, half the passes", "free HM, equal epochs"


@study("X2")
def free(scale: Scale) -> Plan:
    """Free HM: the ERS of HM at a fraction of the passes."""
    whole, standard = _ground(scale)
    epochs, per_batch = whole.resolved(0).epochs, hardness_arms.STEPS[scale] + 1
    clean, robust = hardness_arms.noise(scale)

    def changed(length: int, **settings: Any) -> Training:
        return dataclasses.replace(whole, settings={**whole.settings, **settings, **for_epochs(length)})

    def for_free(length: int) -> Training:
        return changed(length, regime={**FREE_HM, "source": hardness_arms.miner(scale, "S")})

    half = epochs // 2
    jobs = {
        WHOLE: whole,
        FREE_HALF: for_free(half * per_batch // REPLAYS),
        FREE: for_free(epochs * per_batch // REPLAYS),
        HALF: changed(half),
        FREE_EPOCHS: for_free(epochs),
        "standard": standard,
    }

    def at_most(share: float, claim: Claim, name: str) -> Claim:
        return priced(claim, Price.of(name, jobs[name]), Price.of(WHOLE, jobs[WHOLE]), share)

    def more_ers(text: str, name: str, least: float = 0.0) -> Claim:
        return hardness_arms.more_ers(text, (name, WHOLE), noise=robust, least=least)

    as_robust = f"for two thirds of the passes, free HM comes within {AS_ROBUST:g} of the ERS of HM"
    as_good = f"for two thirds of the passes, free HM keeps R@1 within {AS_GOOD:g} points of HM"
    alike = "for about as many passes (a fifth more at most), free HM reaches more ERS"
    same = "for the same epochs and no more passes, free HM reaches more ERS"
    return Plan(
        hardness_arms.named(jobs, (0,) if scale == "paper" else None),
        [
            at_most(LESS, more_ers(as_robust, FREE_HALF, least=-AS_ROBUST), FREE_HALF),
            at_most(LESS, Ordered(as_good, (FREE_HALF, WHOLE), noise=clean, least=-AS_GOOD), FREE_HALF),
            at_most(ALIKE, more_ers(alike, FREE), FREE),
            at_most(1.0, more_ers(same, FREE_EPOCHS), FREE_EPOCHS),
        ],
    )


def _ground(scale: Scale) -> tuple[Training, Training]:
    """HM[S, LGA] as X2 has it, and without an adversary; at paper scale X5's HM&ICS without its intra-class term."""
    measures: tuple[Measure, ...] = (hardness_arms.FIXED, Probe("spent"))
    if scale == "pocket":
        return hardness_arms.hm(scale, measures=measures), hardness_arms.standard(scale, measures=measures)
    hm = tested_against(scale)
    hm = dataclasses.replace(hm, settings={**hm.settings, "regime.ics": 0}, measures=measures)
    return hm, dataclasses.replace(hm, settings={**hm.settings, "regime": {"name": "standard"}})
