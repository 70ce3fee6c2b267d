"""The components of a direct gradient, each on its own: studies G1 to G3."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from holdfast.gradients.named import Components
from holdfast.studies.base import Study, register
from holdfast.studies.catalogue.direct_gradients_arms import ALIKE, COMPONENTS, R1_NOISE, Ground
from holdfast.studies.catalogue.direct_gradients_claims import VALIDATION, most, steadier, tuned
from holdfast.studies.catalogue.paper_settings import budget
from holdfast.studies.claims import All, Claim, Near, Ordered
from holdfast.studies.drawings import Drawing, Lines
from holdfast.studies.jobs import Arm, Scale

DIRECTIONS = {name: Components(name, "con", "con") for name in ("euc", "cos", "euc-orth", "cos-orth")}
WEIGHTS = ("euc", "lin", "lin-ms", "sig", "sig-ms")
PAIRS = {
    **{f"cos, {weight}": Components("cos", weight, "con") for weight in ("con", *WEIGHTS)},
    **{f"euc, {weight}": Components("euc", weight, "con") for weight in ("con", "euc", "lin-ms")},
}
RELATIVE = {name: PAIRS[name] for name in ("cos, lin-ms", "cos, sig-ms")}
TRIPLETS = {
    "con": Components("cos", "con", "con"),
    "cos": Components("cos", "con", "cos"),
    "cos + sc1": Components("cos", "con", "cos", "sc1"),
    "cir": Components("cos", "con", "cir"),
    "cir + sc2": Components("cos", "con", "cir", "sc2"),
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
        "Every rule is judged at the learning rate that the validation classes prefer among those run; the paper prints"
        " the best of four by test classes. CUB takes the place of CARS and In-shop, with 8 images per class and batch"
        " 128 as in the paper's comparison, and ResNet-50 that of ResNet-18, whose weights are not at hand."
        f" {budget(rate='SGD', batch='16 classes × 8 images')} The paper has 60 epochs (80 against others) and a step"
        " in the learning rate. A fifth of CUB's training classes is kept to choose rates on. The arms on CARS are the"
        " paper's own setting."
    ),
}


class ComponentStudy(Study):
    """A table of rules that differ in one component."""

    rules: ClassVar[Mapping[str, Components]]

    def arms(self, scale: Scale) -> list[Arm]:
        """Every rule at every learning rate."""
        return [arm for ground in COMPONENTS[scale] for arm in ground.arms(self.rules)]

    def columns(self, scale: Scale) -> dict[str, str]:
        """Retrieval on the test classes, and what the learning rate is chosen by."""
        return {"R@1": "R@1", "R@2": "R@2", "validation R@1": VALIDATION}

    def drawings(self, scale: Scale) -> list[Drawing]:
        """R@1 against the learning rate."""
        return [
            Lines(
                title=f"{ground.name('')} R@1 by learning rate".strip(),
                lines={rule: {rate: ground.arm_name(rule, rate) for rate in ground.rates} for rule in self.rules},
                x="learning rate",
                logarithmic=True,
            )
            for ground in COMPONENTS[scale]
        ]

    def notes(self, scale: Scale) -> str:
        """What all three tables have in common."""
        return NOTES[scale]

    def above(self, ground: Ground, text: str, more: str, less: str, least: float = 0.0) -> Claim:
        """One rule above another."""
        arms = (ground.name(more), ground.name(less))
        return tuned(
            Ordered(text=ground.name(text), arms=arms, noise=R1_NOISE, least=least), ground.grids((more, less))
        )

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
    rules = DIRECTIONS

    def claims(self, scale: Scale) -> list[Claim]:
        """Cosine above euclidean, with and without the right angle."""
        found: list[Claim] = []
        for ground in COMPONENTS[scale]:
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
        " euc 75.2, lin-ms 78.2; In-shop with cos from rate 0.5 to 4: lin-ms 86.5 to 85.1, sig-ms 86.4 to 57.0"
    )
    rules = PAIRS

    def arms(self, scale: Scale) -> list[Arm]:
        """Also the two relative weights at a rate too high for most."""
        high = [
            ground.arm(rule, parts, ground.high) for ground in COMPONENTS[scale] for rule, parts in RELATIVE.items()
        ]
        return super().arms(scale) + high

    def claims(self, scale: Scale) -> list[Claim]:
        """Weights against none, directions under weights, lin-ms against all, and the learning rate."""
        return [claim for ground in COMPONENTS[scale] for claim in self._on(ground)]

    def drawings(self, scale: Scale) -> list[Drawing]:
        """Also the two relative weights up to the high rate."""
        relative = [
            Lines(
                title=f"{ground.name('')} lin-ms and sig-ms at high learning rates".strip(),
                lines={
                    rule: {rate: ground.arm_name(rule, rate) for rate in (*ground.rates, ground.high)}
                    for rule in RELATIVE
                },
                x="learning rate",
                logarithmic=True,
            )
            for ground in COMPONENTS[scale]
        ]
        return [*super().drawings(scale), *relative]

    def _on(self, ground: Ground) -> list[Claim]:
        helps = [self.above(ground, f"{weight} above con", f"cos, {weight}", "cos, con") for weight in WEIGHTS]
        alike = [
            self.near(ground, f"euc near cos with {weight}", f"euc, {weight}", f"cos, {weight}")
            for weight in ("euc", "lin-ms")
        ]
        others = [weight for weight in ("con", *WEIGHTS) if weight != "lin-ms"]
        best = [
            self.above(ground, f"lin-ms above {weight}", "cos, lin-ms", f"cos, {weight}", least=-ALIKE)
            for weight in others
        ]
        low, high = ground.rates[-1], ground.high
        steady, other = ((ground.arm_name(rule, low), ground.arm_name(rule, high)) for rule in RELATIVE)
        return [
            most(ground.name("most pair weights retrieve better than none"), helps),
            All(text=ground.name(f"under a pair weight, euc and cos are within {ALIKE:g} points"), parts=tuple(alike)),
            All(text=ground.name(f"no pair weight beats lin-ms by more than {ALIKE:g} points"), parts=tuple(best)),
            steadier(
                ground.name("a higher learning rate costs lin-ms less than sig-ms"), steady, other, noise=2 * R1_NOISE
            ),
        ]


@register("G3")
class TripletWeight(ComponentStudy):
    """What a triplet counts: little depends on it, except for the masks where classes overlap."""

    id = "G3"
    source = "GS, Table 4"
    published = (
        "R@1 on CARS with cos, con: con 75.5, cos 75.8, cos + sc1 77.0, cir 75.5, cir + sc2 76.6; In-shop: 85.2, 86.0,"
        " 85.1, 86.0, 84.2"
    )
    rules = TRIPLETS

    def claims(self, scale: Scale) -> list[Claim]:
        """Weights close to none; masks above none."""
        found: list[Claim] = []
        for ground in COMPONENTS[scale]:
            little = [self.near(ground, f"{weight} near con", weight, "con") for weight in ("cos", "cir")]
            found += [
                All(text=ground.name(f"cos and cir are within {ALIKE:g} points of con"), parts=tuple(little)),
                self.above(ground, "sc1 helps cos", "cos + sc1", "cos"),
                self.above(ground, "sc2 helps cir", "cir + sc2", "cir"),
            ]
        return found

    def notes(self, scale: Scale) -> str:
        """Also what is left out."""
        return (
            f"{super().notes(scale)} The masks should help where classes overlap; how far they do is `overlap` in G5."
            " The paper's second half of the table, with pair weight lin, is left out."
        )
