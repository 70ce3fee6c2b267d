"""The components of a direct gradient, each on its own: studies G1 to G3."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from holdfast.gradients import Components
from holdfast_studies.base import Study, register
from holdfast_studies.catalogue import direct_gradients_printed as printed
from holdfast_studies.catalogue.direct_gradients_arms import (
    ALIKE,
    COMPONENTS,
    DIRECTIONS_ON,
    INSHOP,
    R1_NOISE,
    Ground,
)
from holdfast_studies.catalogue.direct_gradients_claims import VALIDATION, most, steadier, tuned
from holdfast_studies.claims import All, Claim, Near, Ordered
from holdfast_studies.drawings import Drawing, Lines
from holdfast_studies.jobs import Arm, Scale

DIRECTIONS = {name: Components(name, "con", "con") for name in ("euc", "cos", "euc-orth", "cos-orth")}
WEIGHTS = ("euc", "lin", "lin-ms", "sig", "sig-ms")


def _pairs(*names: tuple[str, tuple[str, ...]]) -> dict[str, Components]:
    return {f"{way}, {weight}": Components(way, weight, "con") for way, weights in names for weight in weights}


PAIRS: dict[Scale, dict[str, Components]] = {
    "pocket": _pairs(("cos", ("con", *WEIGHTS)), ("euc", ("con", "euc", "lin-ms"))),
    "paper": _pairs(("cos", ("con", *WEIGHTS)), ("euc", ("con", *WEIGHTS))),
}
RELATIVE = _pairs(("cos", ("lin-ms", "sig-ms")))

DRAWN, PRINTED_SIGN = "sc2 as in figure 3", "sc2 as in Equation 19"
AS_PRINTED: Any = {"name": "sc2", "printed": True}


def _triplets(pair: str, before: str, *names: str) -> dict[str, Components]:
    found = {}
    for name in names:
        weight, _, mask = name.partition(" + ")
        sign = AS_PRINTED if mask == "sc2 as printed" else mask or None
        found[before + name] = Components("cos", pair, weight, sign)
    return found


MASKED = ("cos + sc1", "cos + sc2", "cir", "cir + sc1", "cir + sc2")
TRIPLETS: dict[Scale, dict[str, Components]] = {
    "pocket": _triplets("con", "", "con", "cos", "cos + sc1", "cir", "cir + sc2"),
    "paper": {
        **_triplets("con", "", "con", "cos", *MASKED, "cos + sc2 as printed", "cir + sc2 as printed"),
        **_triplets("lin", "lin, ", "con", "cos", *MASKED),
    },
}

NOTES: dict[Scale, str] = {
    "pocket": (
        "Every rule is trained at two learning rates and judged at the one that the validation classes prefer, by code;"
        " the paper prints the best of four by test classes. 12 epochs of a small convolutional network, begun by"
        " 6 epochs of multi-similarity on the same classes where the paper starts from ImageNet weights: from random"
        " weights, euc and cos with pair weight con gather everything in one point within an epoch. Adam undoes most of"
        " what a weight does to the size of all gradients alike; the paper uses plain SGD."
    ),
    "paper": (
        "The paper's batches, schedule and augmentation, no weight decay, all training classes, the last model."
        " ResNet-50 stands for ResNet-18, whose ImageNet weights are not at hand, so that differences between rules are"
        " judged and not levels. Each rule has one learning rate: the best of those that the paper prints for it on"
        " CARS (by its test classes), or what G6 found on a split of the training classes."
    ),
}


class ComponentStudy(Study):
    """A table of rules that differ in one component."""

    rules: ClassVar[Mapping[Scale, Mapping[str, Components]]]
    on_cars: ClassVar[Mapping[str, float]]
    """R@1 on CARS as printed."""

    def grounds(self, scale: Scale) -> tuple[Ground, ...]:
        """Where its rules are compared."""
        return COMPONENTS[scale]

    def readings(self) -> dict[str, str]:
        """Rule → how something unsaid is read in it."""
        return {}

    def arms(self, scale: Scale) -> list[Arm]:
        """Every rule at its learning rate, or at all of them."""
        rules, readings = self.rules[scale], self.readings()
        return [arm for ground in self.grounds(scale) for arm in ground.arms(rules, readings=readings)]

    def columns(self, scale: Scale) -> dict[str, str]:
        """Retrieval on the test classes, and what the learning rate is chosen by where it is."""
        chosen = {"validation R@1": VALIDATION} if scale == "pocket" else {}
        return {"R@1": "R@1", "R@2": "R@2", **chosen}

    def drawings(self, scale: Scale) -> list[Drawing]:
        """R@1 against the learning rate, where rules have several."""
        return [
            Lines(
                title=f"{ground.name('')} R@1 by learning rate".strip(),
                lines={
                    rule: {rate: ground.arm_name(rule, rate) for rate in ground.rates_of(rule)}
                    for rule in self.rules[scale]
                },
                x="learning rate",
                logarithmic=True,
            )
            for ground in self.grounds(scale)
            if ground.rates
        ]

    def notes(self, scale: Scale) -> str:
        """What all three tables have in common."""
        return NOTES[scale]

    def above(
        self,
        ground: Ground,
        text: str,
        more: str,
        less: str,
        least: float = 0.0,
        reading: str = "",
        limit: bool = False,
    ) -> Claim:
        """One rule above another."""
        gap = self.on_cars[more] - self.on_cars[less] if ground.label == "CARS" and least == 0 else 0.0
        claim = Ordered(
            text=ground.name(text),
            arms=(ground.name(more), ground.name(less)),
            noise=R1_NOISE,
            least=least,
            printed=(gap,) if gap > 0 else (),
            reading=reading,
            limit=limit,
        )
        return tuned(claim, ground.grids((more, less)))

    def near(self, ground: Ground, text: str, one: str, other: str) -> Claim:
        """Two rules close to each other."""
        arms = (ground.name(one), ground.name(other))
        claim = Near(text=ground.name(text), arms=arms, within=ALIKE, noise=R1_NOISE)
        return tuned(claim, ground.grids((one, other)))


@register("G1")
class GradientDirection(ComponentStudy):
    """Where a direct gradient points: cosine before euclidean."""

    id = "G1"
    source = "GS, Table 2"
    published = "R@1 on CARS: cos-orth 77.0, cos 75.5, euc 69.5, euc-orth 66.9; In-shop: 86.6, 85.2, 83.7, 84.1"
    rules: ClassVar[Mapping[Scale, Mapping[str, Components]]] = {"pocket": DIRECTIONS, "paper": DIRECTIONS}
    on_cars: ClassVar[Mapping[str, float]] = printed.highest(printed.DIRECTIONS)

    def grounds(self, scale: Scale) -> tuple[Ground, ...]:
        """CARS, and CUB beside it."""
        return DIRECTIONS_ON[scale]

    def claims(self, scale: Scale) -> list[Claim]:
        """Cosine above euclidean, with and without the right angle."""
        found: list[Claim] = []
        for ground in self.grounds(scale):
            found += [
                self.above(ground, "cos retrieves better than euc", "cos", "euc"),
                self.above(ground, "cos-orth retrieves better than euc-orth", "cos-orth", "euc-orth"),
                self.above(
                    ground, f"cos-orth is no worse than cos (by {ALIKE:g} points)", "cos-orth", "cos", least=-ALIKE
                ),
            ]
        return found


@register("G2")
class PairWeight(ComponentStudy):
    """What a pair counts: most weights help, and lin-ms survives high learning rates."""

    id = "G2"
    source = "GS, Table 3 and Appendix Table 2"
    published = (
        "R@1 on CARS with cos: con 75.5, euc 77.0, lin 77.8, lin-ms 78.8, sig 74.3, sig-ms 76.2; with euc: con 69.5,"
        " euc 75.2, lin 76.7, lin-ms 78.2, sig 71.9, sig-ms 74.6; In-shop with cos from rate 0.5 to 4: lin-ms 86.5 to"
        " 85.1, sig-ms 86.4 to 57.0"
    )
    rules = PAIRS
    on_cars: ClassVar[Mapping[str, float]] = printed.highest(printed.PAIRS)

    def arms(self, scale: Scale) -> list[Arm]:
        """Also the two relative weights at a rate too high for most, and on In-shop."""
        high = [
            ground.arm(rule, parts, ground.high)
            for ground in self._steadiness(scale)
            for rule, parts in RELATIVE.items()
        ]
        return super().arms(scale) + (INSHOP.arms(RELATIVE) if scale == "paper" else []) + high

    def _steadiness(self, scale: Scale) -> tuple[Ground, ...]:
        return (*COMPONENTS[scale], INSHOP) if scale == "paper" else COMPONENTS[scale]

    def claims(self, scale: Scale) -> list[Claim]:
        """Weights against none, directions under weights, lin-ms against all, and the learning rate."""
        found = [claim for ground in COMPONENTS[scale] for claim in self._on(ground, scale)]
        return found + [self._steady(ground) for ground in self._steadiness(scale)]

    def drawings(self, scale: Scale) -> list[Drawing]:
        """Also the two relative weights up to the high rate."""
        relative = [
            Lines(
                title=f"{ground.name('')} lin-ms and sig-ms at high learning rates".strip(),
                lines={
                    rule: {rate: ground.arm_name(rule, rate) for rate in (*ground.rates_of(rule), ground.high)}
                    for rule in RELATIVE
                },
                x="learning rate",
                logarithmic=True,
            )
            for ground in self._steadiness(scale)
        ]
        return [*super().drawings(scale), *relative]

    def _on(self, ground: Ground, scale: Scale) -> list[Claim]:
        ways = ("cos",) if scale == "pocket" else ("cos", "euc")
        helps = [
            self.above(ground, f"{way}, {weight} above con", f"{way}, {weight}", f"{way}, con")
            for way in ways
            for weight in WEIGHTS
        ]
        alike = [
            self.near(ground, f"euc near cos with {weight}", f"euc, {weight}", f"cos, {weight}")
            for weight in (("euc", "lin-ms") if scale == "pocket" else WEIGHTS)
        ]
        others = [weight for weight in ("con", *WEIGHTS) if weight != "lin-ms"]
        best = [
            self.above(ground, f"lin-ms above {weight}", "cos, lin-ms", f"cos, {weight}", least=-ALIKE)
            for weight in others
        ]
        return [
            most(ground.name("most pair weights retrieve better than none"), helps),
            All(text=ground.name(f"under a pair weight, euc and cos are within {ALIKE:g} points"), parts=tuple(alike)),
            All(text=ground.name(f"no pair weight beats lin-ms by more than {ALIKE:g} points"), parts=tuple(best)),
        ]

    def _steady(self, ground: Ground) -> Claim:
        """The paper finds it on In-shop alone; elsewhere it is asked how far that reaches."""
        steady, other = (
            (ground.arm_name(rule, ground.rates_of(rule)[-1]), ground.arm_name(rule, ground.high)) for rule in RELATIVE
        )
        text = ground.name("a higher learning rate costs lin-ms less than sig-ms")
        return steadier(text, steady, other, noise=2 * R1_NOISE, limit=ground is not INSHOP)


@register("G3")
class TripletWeight(ComponentStudy):
    """What a triplet counts: little depends on it, except for the masks where classes overlap."""

    id = "G3"
    source = "GS, Table 4"
    published = (
        "R@1 on CARS with cos and pair weight con (lin): con 75.5 (77.8), cos 75.8 (77.5), cos + sc1 77.0 (78.8),"
        " cos + sc2 77.2 (78.4), cir 75.5 (78.3), cir + sc1 77.0 (78.1), cir + sc2 76.6 (78.8)"
    )
    rules = TRIPLETS
    on_cars: ClassVar[Mapping[str, float]] = {
        **printed.highest(printed.TRIPLETS),
        **printed.WITHOUT_RATES,
        "cos + sc2 as printed": printed.WITHOUT_RATES["cos + sc2"],
        "cir + sc2 as printed": max(printed.TRIPLETS["cir + sc2"].values()),
    }

    def readings(self) -> dict[str, str]:
        """The sign of sc2."""
        rules = TRIPLETS["pocket"] | TRIPLETS["paper"]
        return {rule: PRINTED_SIGN if "as printed" in rule else DRAWN for rule in rules if "sc2" in rule}

    def claims(self, scale: Scale) -> list[Claim]:
        """Weights close to none; masks above none."""
        found: list[Claim] = []
        for ground in COMPONENTS[scale]:
            for before in ("", "lin, ") if scale == "paper" else ("",):
                little = [
                    self.near(ground, f"{before}{weight} near con", before + weight, f"{before}con")
                    for weight in ("cos", "cir")
                ]
                text = f"{before}cos and cir are within {ALIKE:g} points of con"
                found.append(All(text=ground.name(text), parts=tuple(little)))
            found += [self._helps(ground, rule, scale) for rule in self.rules[scale] if " + " in rule]
        return found

    def _helps(self, ground: Ground, rule: str, scale: Scale) -> Claim:
        """A mask above none; where the paper's own table has it the other way round, how far it helps."""
        weight, _, mask = rule.partition(" + ")
        before, _, plain = weight.rpartition(", ")
        text = f"{mask.partition(' ')[0]} helps {plain}" + (f" with {before}" if before else "")
        limit = self.on_cars[rule] < self.on_cars[weight]
        return self.above(ground, text, rule, weight, reading=self.readings().get(rule, ""), limit=limit)

    def notes(self, scale: Scale) -> str:
        """Also what a mask is about."""
        return (
            f"{super().notes(scale)} The masks should help where classes overlap; how far they do is `overlap` in G5."
            " The inequality that the paper prints for sc2 drops the easy triplets, its figure the hard ones."
        )
