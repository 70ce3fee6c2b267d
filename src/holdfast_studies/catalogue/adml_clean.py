"""ADML on clean images: Tables 2, 3 and 6, Figure 1; on the parts of losses: Tables 7 and 8, Figures 4 and 5."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from holdfast_studies.base import Plan, paper, study
from holdfast_studies.catalogue import adml_arms
from holdfast_studies.catalogue.adml_arms import (
    GOALS,
    HALF,
    OTHER,
    PARTS,
    PARTS_ROW,
    R1_NOISE,
    RECIPES,
    TUNED_MARK,
    USUAL,
)
from holdfast_studies.catalogue.rules import peak
from holdfast_studies.claims import Beyond, Claim, Judged, Near, Ordered, gaps
from holdfast_studies.drawing import Bars, Curves, Lines
from holdfast_studies.jobs import Arm, Probe, Scale, called

COLUMNS = {"R@1": "R@1", "NMI": "NMI", "mAP@C": "mAP@C", "passes per step": "log/passes"}
ALIKE = 3.0
"""Points of R@1 within which two arms are about as good as each other; one seed cannot tell less."""


@dataclasses.dataclass(frozen=True)
class KindGround:
    """Where the kinds of adversaries are compared.

    Args:
        name: in claims.
        prefix: of the names of its arms.
        printed: R@1 as the paper has it, by kind; empty where it was measured on other data.
        kinds: its arms, in the usual units.
        others: kinds that it also has in the other units.
    """

    name: str
    prefix: str = ""
    printed: Mapping[str, float] = dataclasses.field(default_factory=dict)
    kinds: tuple[str, ...] = tuple(RECIPES)
    others: tuple[str, ...] = ()


PRINTED: dict[str, dict[str, float]] = paper("adml")["A2"]["printed"]
"""Dataset → kind → R@1 as the paper has it."""
TABLE_3 = ("standard", "+T", "+A", "+U")
GROUNDS: dict[Scale, tuple[KindGround, ...]] = {
    "pocket": (KindGround("glyphs", others=("+A", "+U")),),
    "paper": (
        KindGround("CUB", "", PRINTED["CUB"], others=("+A", "+U")),
        KindGround("CUB, tuned", f"{TUNED_MARK} ", PRINTED["CUB"], others=("+A",)),
        KindGround("CARS", "CARS ", PRINTED["CARS"]),
        KindGround("SOP", "SOP ", PRINTED["SOP"], TABLE_3),
        KindGround("In-shop", "In-shop ", PRINTED["In-shop"], TABLE_3),
    ),
}
"""The paper's own setting first. Online Products and In-shop are planned for whoever has them."""

SHORT: dict[str, dict[str, Any]] = {
    "cars": {"epochs": 40, "evaluate_every": 20},
    "sop": {"epochs": 10, "evaluate_every": 5},
    "inshop": {"epochs": 10, "evaluate_every": 5},
}
"""Of the paper's 100 epochs; an epoch over Online Products has ten times the steps of one over CUB."""


def elsewhere(prefix: str, data: str, kinds: tuple[str, ...]) -> list[Arm]:
    """The kinds on another dataset, with its own weight and attack."""
    found = []
    for kind in kinds:
        recipe, row = RECIPES[kind], {}
        if kind != "standard" and data == "cars":
            recipe = f"{recipe}-cars"
        elif kind != "standard":
            recipe, row = f"adml-a-{data}", {"regime.goal": {**GOALS[kind], "reference": "joint"}}
        name = f"{prefix}{kind}"
        found.append(adml_arms.arm("paper", kind, name, row=row, settings=SHORT[data], recipe=recipe, data=data))
    return found


@study("A2")
def clean_gain(scale: Scale) -> Plan:
    """ADML+A and +U beat standard training and +T on clean images; A+U together is about as good as T."""
    arms = adml_arms.variants(scale) + adml_arms.others(scale)
    if scale == "paper":
        arms += adml_arms.tuned() + elsewhere("CARS ", "cars", tuple(RECIPES))
        arms += elsewhere("SOP ", "sop", TABLE_3) + elsewhere("In-shop ", "inshop", TABLE_3)
    return Plan(
        arms,
        [claim for ground in GROUNDS[scale] for claim in _claims(scale, ground)],
        [Bars("Clean R@1", called(arms), {"R@1": "R@1"})],
        COLUMNS,
    )


def _claims(scale: Scale, ground: KindGround) -> list[Claim]:
    """That A and U beat the others, each by itself, and that A+U is like T."""
    found: list[Claim] = []
    usual, other = USUAL[scale], OTHER[scale]
    for reading, better in {usual: [k for k in ("+A", "+U") if k in ground.kinds], other: ground.others}.items():
        for worse in ("standard", "+T") if reading == usual else ("standard",):
            for kind in better:
                text = f"ADML{kind} beats {'ADML' * (worse != 'standard')}{worse} training ({ground.name})"
                arms = (ground.prefix + adml_arms.in_units(scale, kind, reading), f"{ground.prefix}{worse}")
                printed = gaps((ground.printed[kind], ground.printed[worse])) if ground.printed else ()
                found.append(Ordered(text, arms, reading=reading, noise=R1_NOISE, printed=printed))
    if "+A+U" in ground.kinds:
        text = f"ADML+A+U is about as good as +T, within {ALIKE:g} points ({ground.name})"
        both = (f"{ground.prefix}+A+U", f"{ground.prefix}+T")
        found.append(Near(text, both, ALIKE, reading=usual, noise=R1_NOISE))
    return found


@study("A4")
def rises_then_falls(scale: Scale) -> Plan:
    """Clean R@1 rises and then falls with λ."""
    weights = adml_arms.WEIGHTS[scale]
    lines = {kind: adml_arms.series(scale, kind) for kind in weights}
    known = {arm.name: arm for arm in adml_arms.weighted(scale, tuple(w for own in weights.values() for w in own))}
    return Plan(
        [known[name] for name in dict.fromkeys(name for line in lines.values() for name in line.values())],
        [
            Judged(
                f"with some λ between 0 and 1, ADML{kind} has a higher clean R@1 than with either end",
                peak(tuple(line.values()), R1_NOISE),
                reading=USUAL[scale],
            )
            for kind, line in lines.items()
        ],
        [Lines("Clean R@1 against λ", lines, x="λ")],
        COLUMNS,
    )


BY_LOSS: dict[str, dict[str, float]] = paper("adml")["A5"]["printed"]
"""Loss → kind → R@1, Table 6."""


@study("A5")
def every_loss(scale: Scale) -> Plan:
    """The gain of ADML holds for triplet, margin, multi-similarity and InfoNCE."""
    kinds = ("+A",) if scale == "pocket" else ("+A", "+U", "+T")

    def named(loss: str, kind: str) -> str:
        """Multi-similarity is the recipes' own, so its arms are those of other studies."""
        if loss != "multi-similarity":
            return loss if kind == "standard" else f"{loss} {kind}"
        if scale == "pocket":
            return kind
        return f"{kind}, {adml_arms.HALF_MARK}" if kind in ("standard", "+T") else f"{kind} λ 0.1"

    arms = [
        adml_arms.arm(scale, kind, named(loss, kind), row=adml_arms.loss_row(scale, loss), settings=HALF[scale])
        for loss in BY_LOSS
        for kind in ("standard", *kinds)
    ]
    return Plan(
        arms,
        [
            Ordered(
                f"ADML{kind} beats standard training with the {loss} loss",
                (named(loss, kind), named(loss, "standard")),
                reading=USUAL[scale],
                noise=R1_NOISE,
                printed=gaps((printed[kind], printed["standard"])) if scale == "paper" else (),
            )
            for loss, printed in BY_LOSS.items()
            for kind in kinds
        ],
        [Bars("Clean R@1 by loss", called(arms), {"R@1": "R@1"})],
        COLUMNS,
    )


LOSSES = ("linear", "triplet", "margin", "multi-similarity")
ONE_POINT = 0.1
"""Mean distance below which an evaluation calls an embedding collapsed."""
POINT_NOISE = 0.02
"""Of a mean distance with one seed: several times what three seeds of a collapsed arm differ by at pocket scale."""

CLOSE = 0.02
"""Difference in Gaussian energy: twice the paper's largest among the losses that reach it, a fifth of linear's."""

NOISE = 0.005
"""Of the Gaussian energy between two runs of one recipe."""

ROWS: dict[str, dict[str, Any]] = {
    "before": {"epochs": 1, "optimizer.lr": 1e-12},
    "energy": {"loss": {"name": "energy"}},
    "energy, s = 0": {"loss": {"name": "energy", "kind": "riesz", "s": 0}},
    "energy, s = 1": {"loss": {"name": "energy", "kind": "riesz", "s": 1}},
}
"""Arms of A7 without a part of a loss. The first learns nothing, and BatchNorm layers that keep statistics up see the
images once; then regularisers: the Gaussian one, whose score the table also gives, and the two hyperspherical ones."""


@study("A6")
def positive_only(scale: Scale) -> Plan:
    """Positive-only losses map everything to one point."""
    arms = [adml_arms.half(scale), *(adml_arms.one_part(scale, loss, "positive") for loss in LOSSES)]
    return Plan(
        arms,
        [
            Beyond(
                f"positive-only {loss} maps everything to one point (mean distance below {ONE_POINT:g})",
                f"{loss}, positive only",
                "distance_all",
                below=ONE_POINT,
                noise=POINT_NOISE,
            )
            for loss in LOSSES
        ],
        [Bars("Mean distance of embedded images", called(arms), {"all": "distance_all"}, unit="")],
    )


@study("A7")
def negative_only(scale: Scale) -> Plan:
    """Negative-only triplet, margin and multi-similarity are as uniform as energy regularisers; linear is not."""
    measures = (Probe("pair-distances"),)
    others = []
    for name, own in ROWS.items():
        first = name == "before"  # the untrained network is looked at after its one epoch
        row = own if first else {**PARTS_ROW[scale], **own}
        settings = {**PARTS[scale], **({"epochs": 1, "evaluate_every": 1} if first else {})}
        others.append(adml_arms.arm(scale, "standard", name, row=row, settings=settings, measures=measures))
    arms = [others[0], *(adml_arms.one_part(scale, loss, "negative", measures) for loss in LOSSES), *others[1:]]
    linear, *names = (f"{loss}, negative only" for loss in LOSSES)
    compared = {
        **{
            f"{name}: as uniform as the energy regulariser (Gaussian energy not higher by over {CLOSE:g})": (
                ("energy", name),
                -CLOSE,
            )
            for name in names
        },
        f"{linear}: less uniform than the energy regulariser (Gaussian energy higher by over {CLOSE:g})": (
            (linear, "energy"),
            CLOSE,
        ),
        **{f"{name}: more uniform than {linear}": ((linear, name), 0.0) for name in names},
    }
    return Plan(
        arms,
        [Ordered(text, pair, "gaussian_energy", noise=NOISE, least=least) for text, (pair, least) in compared.items()],
        [
            Bars("Gaussian energy", called(arms), {"mean exp(-d²)": "gaussian_energy"}, unit=""),
            Curves(
                "Distances of pairs of embedded images", called(arms), "pair-distances/density", "distance", "density"
            ),
        ],
    )
