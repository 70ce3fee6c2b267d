"""M4: how many targets, how many sets, and unadversarial images."""

from __future__ import annotations

from holdfast_studies.base import Study, register
from holdfast_studies.catalogue.mdprop_arms import (
    AS_GOOD,
    BASELINES,
    R1_NOISE,
    fixed,
    named,
    towards,
    training,
)
from holdfast_studies.claims import All, Claim, Ordered
from holdfast_studies.drawings import Drawing, Lines
from holdfast_studies.jobs import Arm, Scale, Training

COUNTS = (1, 2, 3, 5, 10)
ONE = {count: f"one set, T {count}" for count in COUNTS}
TWO = {count: f"two sets, T {count}" for count in COUNTS}
"""T → arm; with two sets, the first always has one target."""
OVERLAP = "stax-fixed/overlap"
THREE, WITH = "three sets, T 1, 3 and 5", "two sets and UX"
PRINTED_UX = 0.8
"""Points of R@1 above standard training, on CUB."""


@register("M4")
class Targets(Study):
    """Three targets are best with one extra set, five with two; unadversarial images help a little."""

    id = "M4"
    source = "MDProp, Section 5 and supplement"
    published = (
        "CUB MS R@1: standard 62.8, one target 63.7, one set T 3 64.7, two sets T 1 and 5 65.8, UX 63.6; T 2 helps "
        "less; three extra sets gain alike; UX beside adversaries gains nothing more"
    )

    def arms(self, scale: Scale) -> list[Arm]:
        """One target and one set is AdvProp-D; T 3 with one set and T 5 with two are the recipes as shipped."""
        audit = (fixed(scale),)

        def two(**targets: int) -> Training:
            return training(scale, "MDProp", towards(scale, **targets), measures=audit)

        arms = {name: training(scale, name, measures=audit) for name in BASELINES[scale]}
        arms |= {
            ONE[1]: training(scale, "AdvProp-D", measures=audit),
            ONE[3]: training(scale, "MDProp-1", measures=audit),
            TWO[5]: training(scale, "MDProp", measures=audit),
            "UX": training(scale, "UX", measures=audit),
        }
        arms |= {
            ONE[count]: training(scale, "MDProp-1", towards(scale, mtax=count), measures=audit)
            for count in COUNTS
            if ONE[count] not in arms
        }
        arms |= {TWO[count]: two(stax=1, mtax=count) for count in COUNTS if TWO[count] not in arms}
        arms |= {THREE: two(stax=1, three=3, mtax=5), WITH: two(stax=1, mtax=5, ux=0)}
        return named(scale, arms)

    def claims(self, scale: Scale) -> list[Claim]:
        """Which T is best, how many sets, and UX."""
        noise = R1_NOISE[scale]
        claims: list[Claim] = [
            _best(scale, "with one extra set, T 3 is best", ONE, 3),
            _best(scale, "with two extra sets, T 5 is best", TWO, 5),
            Ordered(text="unadversarial images raise it less than MDProp", arms=(TWO[5], "UX"), noise=noise),
            Ordered(
                text=f"beside adversaries, unadversarial images gain nothing more ({AS_GOOD:g} points or more)",
                arms=(TWO[5], WITH),
                noise=noise,
                least=-AS_GOOD,
            ),
        ]
        for baseline, reading in BASELINES[scale].items():
            claims += [
                Ordered(
                    text=f"{name} above {baseline} in clean R@1",
                    reading=reading,
                    arms=(arm, baseline),
                    noise=noise,
                    printed=(PRINTED_UX,) if arm == "UX" and scale == "paper" else (),
                )
                for name, arm in (("unadversarial images alone", "UX"), ("three extra sets", THREE))
            ]
        return claims

    def columns(self, scale: Scale) -> dict[str, str]:
        """Clean, and under single-target attacks."""
        clean = {"R@1": "R@1", "R@4": "R@4", "NMI": "NMI", "π_ratio": "pi_ratio"}
        return clean | {f"attacked {key}": f"stax-fixed/stax/{key}" for key in ("R@1", "NMI")} | {"overlap": OVERLAP}

    def drawings(self, scale: Scale) -> list[Drawing]:
        """R@1 by T."""
        lines = {"one extra set": ONE, "two extra sets": TWO}
        drawn = {name: {float(count): arm for count, arm in arms.items()} for name, arms in lines.items()}
        return [Lines(title="Clean R@1 by the number of targets", lines=drawn, x="targets T")]

    def notes(self, scale: Scale) -> str:
        """What the paper leaves open."""
        lines = (
            "Unadversarial images have one target of their own class. The paper does not say which images its third "
            "extra set is for, nor which adversaries it put beside unadversarial images: the arms' names do."
        )
        return f"Small characters, random start, ε 0.03. {lines}" if scale == "pocket" else lines


def _best(scale: Scale, text: str, arms: dict[int, str], best: int) -> Claim:
    others = [arm for count, arm in arms.items() if count != best]
    parts = tuple(
        Ordered(text=f"{arms[best]} above {other}", arms=(arms[best], other), noise=R1_NOISE[scale]) for other in others
    )
    return All(text=text, parts=parts)
