"""ADML: attacks on trained models (A1, A9), clean gain (A2, A4, A5, A8), robustness (A3), parts of losses (A6, A7)."""

from __future__ import annotations

import dataclasses
from typing import Any

from holdfast_studies.base import Plan, study
from holdfast_studies.catalogue import adml_arms
from holdfast_studies.declared import paper
from holdfast_studies.drawing import Lines
from holdfast_studies.jobs import Arm, Probe, Scale, called


@study("A1")
def attacks_on_trained(scale: Scale) -> Plan:
    """Alignment and uniformity attacks hurt a trained model far more than the triplet attack."""
    name, recipe = (None, None) if scale == "pocket" else ("Triplet-D", "resnet50-triplet")
    audits = tuple(adml_arms.attacks(scale).values())
    return Plan([adml_arms.arm(scale, "standard", name, recipe=recipe, measures=audits)])


_ARMS = paper("adml")["arms"]
TABLE_3 = TABLE_4 = ("standard", "+T", "+A", "+U")
CARS = {"CARS ": None, f"CARS {adml_arms.TUNED_MARK} ": adml_arms.TUNED}
"""How arms on CARS begin, and what is laid over their recipes; in the paper's setting, the dataset's own."""


@study("A2")
def clean_gain(scale: Scale) -> Plan:
    """ADML+A and +U beat standard training and +T on clean images; A+U together is about as good as T.

    Online Products and In-shop are planned for whoever has them.
    """
    arms = adml_arms.variants(scale) + adml_arms.others(scale)
    if scale == "paper":
        kinds = tuple(adml_arms.RECIPES)
        for name, settings in (("28 × 4", adml_arms.BALANCED), ("whole photographs", adml_arms.PHOTOGRAPHS)):
            arms.append(adml_arms.arm(scale, "standard", f"standard, {name}", settings=settings))
        arms += [*map(adml_arms.tuned, kinds), adml_arms.tuned("+A", adml_arms.PIXELS)]
        for prefix, ground in CARS.items():
            arms += adml_arms.elsewhere("cars", prefix, kinds, ground)
        arms += adml_arms.elsewhere("sop", "SOP ", TABLE_3) + adml_arms.elsewhere("inshop", "In-shop ", TABLE_3)
    return Plan(arms)


LEAST: dict[Scale, float] = {"pocket": 0.1, "paper": 0.2}
"""λ from which robustness should grow."""


@study("A3")
def robustness_grows(scale: Scale) -> Plan:
    """Under the alignment attack A > U > T > none, and robustness grows with λ."""
    audits, usual, least = adml_arms.attacks(scale), adml_arms.USUAL[scale], LEAST[scale]
    own, other = (tuple(a for said, a in audits.items() if said.startswith(usual) == same) for same in (True, False))
    arms = [adml_arms.arm(scale, "standard", measures=tuple(audits.values()))]
    arms += adml_arms.variants(scale, ("+T", "+U", "+A"), own)
    if scale == "paper":
        arms += adml_arms.others(scale, ("+T", "+U", "+A"), other)
        arms += [adml_arms.tuned(kind, measures=own) for kind in TABLE_4]
        for prefix, ground in CARS.items():
            arms += adml_arms.elsewhere("cars", prefix, TABLE_4, ground, own)
    weights = tuple(w for of_kind in adml_arms.WEIGHTS[scale].values() for w in of_kind if w >= least)
    known = {*called(arms)}
    arms += [arm for arm in adml_arms.weighted(scale, weights, own[:1]) if arm.name not in known]
    lines = {
        kind: {w: name for w, name in adml_arms.series(scale, kind).items() if w == 0 or w >= least}
        for kind in adml_arms.WEIGHTS[scale]
    }
    figure = f"{audits[usual].prefix}/alignment/R@1"
    return Plan(arms, drawings=[Lines("R@1 under the alignment attack against λ", lines, figure, x="λ")])


@study("A4")
def rises_then_falls(scale: Scale) -> Plan:
    """Clean R@1 rises and then falls with λ."""
    lines = {kind: adml_arms.series(scale, kind) for kind in adml_arms.WEIGHTS[scale]}
    weights = tuple(weight for own in adml_arms.WEIGHTS[scale].values() for weight in own)
    known = {arm.name: arm for arm in adml_arms.weighted(scale, weights)}
    arms = [known[name] for name in dict.fromkeys(name for line in lines.values() for name in line.values())]
    return Plan(arms, drawings=[Lines("Clean R@1 against λ", lines, x="λ")])


@study("A5")
def every_loss(scale: Scale) -> Plan:
    """The gain of ADML holds for triplet, margin, multi-similarity and InfoNCE."""
    kinds = ("standard", "+A") if scale == "pocket" else ("standard", "+A", "+U", "+T")

    def named(loss: str, kind: str) -> str:
        """Multi-similarity is the recipes' own, so its arms are those of other studies."""
        if loss != "multi-similarity":
            return loss if kind == "standard" else f"{loss} {kind}"
        if scale == "pocket":
            return kind
        return f"{kind}, {adml_arms.HALF_MARK}" if kind in ("standard", "+T") else f"{kind} λ 0.1"

    return Plan(
        [
            adml_arms.arm(
                scale, kind, named(loss, kind), row=adml_arms.loss_row(scale, loss), settings=adml_arms.HALF[scale]
            )
            for loss in ("triplet", "margin", "multi-similarity", "info-nce")
            for kind in kinds
        ]
    )


LOSSES = ("linear", "triplet", "margin", "multi-similarity")


@study("A6")
def positive_only(scale: Scale) -> Plan:
    """Positive-only losses map everything to one point."""
    return Plan([adml_arms.half(scale), *(adml_arms.one_part(scale, loss, "positive") for loss in LOSSES)])


@study("A7")
def negative_only(scale: Scale) -> Plan:
    """Negative-only triplet, margin and multi-similarity are as uniform as energy regularisers; linear is not."""
    measures = (Probe("pair-distances"),)

    def made(name: str, row: dict[str, Any], **settings: int) -> Arm:
        over = {**adml_arms.PARTS[scale], **settings}
        return adml_arms.arm(scale, "standard", name, row=row, settings=over, measures=measures)

    before = made("before", _ARMS["before"], epochs=1, evaluate_every=1)  # untrained, looked at after its one epoch
    parts = [adml_arms.one_part(scale, loss, "negative", measures) for loss in LOSSES]
    energies = [made(name, {**adml_arms.PARTS_ROW[scale], "loss": loss}) for name, loss in _ARMS["energies"].items()]
    return Plan([before, *parts, *energies])


@study("A8")
def hardness_predicts_nothing(scale: Scale) -> Plan:
    """How hard an attack is does not predict the clean gain of training on it."""
    learnt = adml_arms.variants(scale)[1:] + adml_arms.others(scale)
    probes = []
    for one in learnt:
        goal = dict(adml_arms.GOALS[one.name.split()[0]])
        units = {} if one.reading == adml_arms.PIXELS else {"units": adml_arms.UNITS[one.reading]}
        arguments = {"goal": goal.pop("name"), **goal, "limit": adml_arms.LIMITS[scale], **units}
        probes.append(Probe("attack-strength", arguments, f"strength{one.name}"))
    standard = adml_arms.arm(scale, "standard", measures=tuple(probes))
    return Plan([standard, *(dataclasses.replace(one, reading="") for one in learnt)])  # units are but a strength here


@study("A9")
def make_up_decides(scale: Scale) -> Plan:
    """Which attack looks strongest depends on what batches are made of.

    Multi-similarity, 128 dims, 56 × 2, a constant 1e-5, 2,600 steps on CUB; nothing at pocket scale.
    """
    make_ups = ("ordered", "28x4", "56x2", "shuffled")
    audits = tuple(adml_arms.audit(units, batches) for units in adml_arms.UNITS for batches in make_ups)
    return Plan([] if scale == "pocket" else [adml_arms.half(scale, measures=audits)])
