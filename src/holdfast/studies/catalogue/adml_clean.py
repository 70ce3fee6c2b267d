"""ADML on clean images: Tables 2, 3 and 6, Figure 1."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from holdfast.studies.base import Study, register
from holdfast.studies.catalogue import adml_arms
from holdfast.studies.catalogue.adml_arms import R1_NOISE, RECIPES, WEIGHTS
from holdfast.studies.catalogue.adml_attacks import SCALES_DIFFER
from holdfast.studies.catalogue.adml_claims import peak
from holdfast.studies.claims import All, Claim, Judged, Near, Ordered, gaps
from holdfast.studies.drawings import Bars, Drawing, Lines
from holdfast.studies.jobs import Arm, Scale

COLUMNS = {"R@1": "R@1", "NMI": "NMI", "mAP@C": "mAP@C", "passes per step": "log/passes"}
CARS_WEIGHT = {"regime.weight": 0.15}
"""λ of the paper on CARS."""
ALIKE = 3.0
"""Points of R@1 within which two arms are about as good as each other; one seed cannot tell less."""
PRINTED: dict[str, dict[str, float]] = {
    "": {"standard": 62.7, "+T": 64.4, "+A": 66.0, "+U": 65.5},
    "CARS ": {"standard": 79.9, "+T": 80.9, "+A": 82.0, "+U": 82.1},
}
"""Prefix of arms → R@1 as the paper has it."""
EXPLAINING: dict[str, dict[str, Any]] = {
    "56 × 2": {"batch": {"classes": 56, "per_class": 2}},
    "lr 1e-5": {"optimizer.lr": 1e-5},
}
"""Settings of the paper that ours differ in, one by one, to explain what comes out otherwise."""


@register("A2")
class CleanGain(Study):
    """ADML+A and +U beat standard training and +T on clean images; A+U together is about as good as T."""

    id = "A2"
    source = "ADML, Tables 2 and 3"
    published = (
        "CUB R@1 62.7 standard, 64.4 +T, 66.0 +A, 65.5 +U, 64.2 +A+U; CARS 79.9 standard, 80.9 +T, 82.0 +A, 82.1 +U, "
        "81.0 +A+U"
    )

    def arms(self, scale: Scale) -> list[Arm]:
        """Both units of ε; at paper scale also the paper's batch and rate, and CARS."""
        if scale == "pocket":
            return adml_arms.variants(scale) + adml_arms.normalised(scale)
        explaining = [
            adml_arms.arm(scale, f"{kind}, {what}", settings, kind=kind)
            for what, settings in EXPLAINING.items()
            for kind in ("standard", "+A")
        ]
        cars = [
            adml_arms.arm(scale, f"CARS {name}", CARS_WEIGHT if name != "standard" else {}, kind=name, data="cars")
            for name in RECIPES
        ]
        return adml_arms.variants(scale) + adml_arms.normalised(scale) + explaining + cars

    def claims(self, scale: Scale) -> list[Claim]:
        """On every dataset of the scale; both units on the first."""
        known = PRINTED if scale == "paper" else {}
        found = self._on("", "ε in pixel units", known.get("", {}))
        text = "ADML+A and +U beat standard training (ε in normalised units)"
        normalised = {"+A": "+A normalised", "+U": "+U normalised"}
        found.append(_beat(text, normalised, {"standard": "standard"}, known.get("", {})))
        return found + (self._on("CARS ", "CARS", known["CARS "]) if scale == "paper" else [])

    @staticmethod
    def _on(prefix: str, where: str, printed: Mapping[str, float]) -> list[Claim]:
        better = {name: f"{prefix}{name}" for name in ("+A", "+U")}
        return [
            _beat(
                f"ADML+A and +U beat standard training ({where})", better, {"standard": f"{prefix}standard"}, printed
            ),
            _beat(f"ADML+A and +U beat ADML+T ({where})", better, {"+T": f"{prefix}+T"}, printed),
            Near(
                text=f"ADML+A+U is about as good as +T, within {ALIKE:g} points ({where})",
                arms=(f"{prefix}+A+U", f"{prefix}+T"),
                within=ALIKE,
                noise=R1_NOISE,
            ),
        ]

    def columns(self, scale: Scale) -> dict[str, str]:
        """The paper's three, and the cost."""
        return COLUMNS

    def drawings(self, scale: Scale) -> list[Drawing]:
        """R@1 by arm."""
        names = tuple(arm.name for arm in self.arms(scale))
        return [Bars(title="Clean R@1", arms=names, figures={"R@1": "R@1"})]

    def notes(self, scale: Scale) -> str:
        """What differs."""
        lines = (
            f"{SCALES_DIFFER[scale]} The paper does not say whether its ε 0.0314 is of pixels or of the normalised "
            "image, which is several times smaller: "
        )
        if scale == "pocket":
            return f"{lines}both are run."
        return (
            f"{lines}both are planned. Two pairs of rows have the paper's batch or its learning rate, to explain what "
            "differs."
        )


@register("A4")
class RisesThenFalls(Study):
    """Clean R@1 rises and then falls with λ."""

    id = "A4"
    source = "ADML, Figure 1"
    published = "a figure; λ 0.1 is used on CUB, 0.15 on CARS"

    def arms(self, scale: Scale) -> list[Arm]:
        """+A with λ from 0 to 1."""
        known = [adml_arms.arm(scale, name) for name in ("standard", "+A")]
        found = {arm.name: arm for arm in known + adml_arms.weighted(scale)}
        return [found[name] for name in WEIGHTS.values()]

    def claims(self, scale: Scale) -> list[Claim]:
        """A peak inside."""
        text = "with some λ between 0 and 1, ADML+A has a higher clean R@1 than with either end"
        return [Judged(text=text, rule=peak(tuple(WEIGHTS.values()), R1_NOISE))]

    def columns(self, scale: Scale) -> dict[str, str]:
        """The paper's three, and the cost."""
        return COLUMNS

    def drawings(self, scale: Scale) -> list[Drawing]:
        """The figure."""
        return [Lines(title="Clean R@1 against λ", lines={"+A": WEIGHTS}, x="λ")]

    def notes(self, scale: Scale) -> str:
        """What differs."""
        return (
            f"{SCALES_DIFFER[scale]} +A only; the paper's figure has +U as well. Any of three inner λ may be the peak, "
            "so that noise has three chances to look like one."
        )


@register("A5")
class EveryLoss(Study):
    """The gain of ADML+A holds for triplet, margin, multi-similarity and InfoNCE."""

    id = "A5"
    source = "ADML, Table 6"
    published = "CUB R@1 triplet 62.3 → 65.1, margin 62.5 → 65.9, multi-similarity 62.7 → 66.1, InfoNCE 61.4 → 64.0"

    losses = ("triplet", "margin", "multi-similarity", "info-nce")
    printed: Mapping[str, tuple[float, ...]] = {
        "triplet": (65.1 - 62.3,),
        "margin": (65.9 - 62.5,),
        "multi-similarity": (66.1 - 62.7,),
        "info-nce": (64.0 - 61.4,),
    }

    def arms(self, scale: Scale) -> list[Arm]:
        """Each loss with and without."""
        return [arm for loss in self.losses for arm in adml_arms.by_loss(scale, loss)]

    def claims(self, scale: Scale) -> list[Claim]:
        """One per loss."""
        return [
            Ordered(
                text=f"ADML+A beats standard training with the {loss} loss",
                arms=(better.name, plain.name),
                noise=R1_NOISE,
                printed=self.printed[loss] if scale == "paper" else (),
            )
            for loss in self.losses
            for plain, better in [adml_arms.by_loss(scale, loss)]
        ]

    def columns(self, scale: Scale) -> dict[str, str]:
        """The paper's three, and the cost."""
        return COLUMNS

    def drawings(self, scale: Scale) -> list[Drawing]:
        """R@1 by arm."""
        names = tuple(arm.name for arm in self.arms(scale))
        return [Bars(title="Clean R@1 by loss", arms=names, figures={"R@1": "R@1"})]

    def notes(self, scale: Scale) -> str:
        """What differs."""
        return f"{SCALES_DIFFER[scale]} The arms `standard` and `+A` learn with multi-similarity."


def _beat(text: str, better: Mapping[str, str], worse: Mapping[str, str], printed: Mapping[str, float]) -> Claim:
    """Each of some arms lies above each of some others.

    Args:
        text: the claim in words.
        better: kind of training → arm.
        worse: the same of those below them.
        printed: R@1 as the paper has it, by kind; nothing where it was not measured on the same data.
    """
    parts = tuple(
        Ordered(
            text=f"{above} over {below}",
            arms=(above, below),
            noise=R1_NOISE,
            printed=gaps((printed[kind], printed[lower])) if printed else (),
        )
        for kind, above in better.items()
        for lower, below in worse.items()
    )
    return All(text=text, parts=parts)
