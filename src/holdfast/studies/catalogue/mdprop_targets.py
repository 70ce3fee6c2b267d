"""M4: how many targets, how many sets, and unadversarial images."""

from __future__ import annotations

from holdfast.studies.base import Study, register
from holdfast.studies.catalogue.mdprop_arms import BUDGET, R1_NOISE, STAX_FIXED, fixed, towards, training
from holdfast.studies.catalogue.named_arms import named
from holdfast.studies.claims import All, Claim, Ordered
from holdfast.studies.drawings import Drawing, Lines
from holdfast.studies.jobs import Arm, Scale

ONE = {1: "one set, T 1", 3: "one set, T 3", 5: "one set, T 5"}
TWO = {1: "two sets, T 1", 3: "two sets, T 3", 5: "two sets, T 5"}
"""T → arm; with two sets, the first always has one target."""


@register("M4")
class Targets(Study):
    """Three targets are best with one extra set, five with two; unadversarial images help a little."""

    id = "M4"
    source = "MDProp, Section 5 and supplement"
    published = "CUB MS R@1: standard 62.8, one target 63.7, one set T 3 64.7, two sets T 1 and 5 65.8, UX 63.6"

    def arms(self, scale: Scale) -> list[Arm]:
        """One target and one set is AdvProp-D; T 3 with one set and T 5 with two are the recipes as shipped."""
        audit = (fixed(scale),)
        return named(
            {
                "standard": training(scale, "standard", measures=audit),
                ONE[1]: training(scale, "AdvProp-D", measures=audit),
                ONE[3]: training(scale, "MDProp-1", measures=audit),
                ONE[5]: training(scale, "MDProp-1", towards(scale, mtax=5), measures=audit),
                TWO[1]: training(scale, "MDProp", towards(scale, stax=1, mtax=1), measures=audit),
                TWO[3]: training(scale, "MDProp", towards(scale, stax=1, mtax=3), measures=audit),
                TWO[5]: training(scale, "MDProp", measures=audit),
                "UX": training(scale, "UX", measures=audit),
            }
        )

    def claims(self, scale: Scale) -> list[Claim]:
        """Which T is best, and UX."""
        return [
            _best(scale, "with one extra set, T 3 is best", ONE, 3),
            _best(scale, "with two extra sets, T 5 is best", TWO, 5),
            Ordered(text="unadversarial images alone raise clean R@1", arms=("UX", "standard"), noise=R1_NOISE[scale]),
            Ordered(text="unadversarial images raise it less than MDProp", arms=(TWO[5], "UX"), noise=R1_NOISE[scale]),
        ]

    def columns(self, scale: Scale) -> dict[str, str]:
        """Clean, and under single-target attacks."""
        return {"R@1": "R@1", "NMI": "NMI", "π_ratio": "pi_ratio", "attacked R@1": STAX_FIXED}

    def drawings(self, scale: Scale) -> list[Drawing]:
        """R@1 by T."""
        lines = {"one extra set": ONE, "two extra sets": TWO}
        drawn = {name: {float(count): arm for count, arm in arms.items()} for name, arms in lines.items()}
        return [Lines(title="Clean R@1 by the number of targets", lines=drawn, x="targets T")]

    def notes(self, scale: Scale) -> str:
        """What differs from the paper."""
        setting = "Small characters, random start, ε 0.03." if scale == "pocket" else BUDGET
        return f"{setting} Unadversarial images have one target of their own class."


def _best(scale: Scale, text: str, arms: dict[int, str], best: int) -> Claim:
    others = [arm for count, arm in arms.items() if count != best]
    parts = tuple(
        Ordered(text=f"{arms[best]} above {other}", arms=(arms[best], other), noise=R1_NOISE[scale]) for other in others
    )
    return All(text=text, parts=parts)
