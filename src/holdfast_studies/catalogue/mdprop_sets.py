"""M2, M5: what separate BatchNorm sets do, and that they drift apart."""

from __future__ import annotations

import itertools

from holdfast_studies.base import Study, register
from holdfast_studies.catalogue.adml_claims import Lower
from holdfast_studies.catalogue.mdprop_arms import (
    AS_GOOD,
    ATTACKED_NOISE,
    BASELINES,
    R1_NOISE,
    STAX_FIXED,
    fixed,
    named,
    towards,
    training,
)
from holdfast_studies.claims import All, Beyond, Claim, Near, Ordered
from holdfast_studies.drawings import Bars, Curves, Drawing
from holdfast_studies.jobs import Arm, Probe, Scale

SHARED = "MDProp-1, one set for all"
SETS = ("clean", "mtax", "stax")
KINDS = {"weight": "weights", "bias": "biases"}
TWINS = "two sets of single targets"
AS_ROBUST = 8.0
"""Points of attacked R@1 within which two arms are about as robust; the paper has 19 to 26 between methods."""
APART = 0.05
"""A relative gap that can be seen: a twentieth of the size of the weights."""


@register("M2")
class SeparateSets(Study):
    """Without separate BatchNorm the clean gain disappears."""

    id = "M2"
    source = "MDProp, Section 5"
    published = "text: clean and multi-target images through one set do not raise clean R@1, and are as robust as AT"

    def arms(self, scale: Scale) -> list[Arm]:
        """The same images with and without a set of their own."""
        audit = (fixed(scale),)
        arms = {name: training(scale, name, measures=audit) for name in (*BASELINES[scale], "AT", "MDProp-1")}
        shared = training(scale, "MDProp-1", {"regime.separate": False}, measures=audit)
        return named(scale, {**arms, SHARED: shared})

    def claims(self, scale: Scale) -> list[Claim]:
        """A gain with sets, none without."""
        noise = R1_NOISE[scale]
        claims: list[Claim] = [
            Ordered(
                text="the set makes the difference: clean R@1 is higher with it", arms=("MDProp-1", SHARED), noise=noise
            ),
            Near(
                text=f"through one set they make it about as robust as AT (within {AS_ROBUST:g} attacked R@1)",
                arms=(SHARED, "AT"),
                figure=STAX_FIXED,
                within=AS_ROBUST,
                noise=ATTACKED_NOISE,
            ),
        ]
        for baseline, reading in BASELINES[scale].items():
            claims += [
                Ordered(
                    text=f"with a set of their own, moved images raise clean R@1 above {baseline}",
                    reading=reading,
                    arms=("MDProp-1", baseline),
                    noise=noise,
                ),
                Ordered(
                    text=f"through one set they do not raise it above {baseline} (by {AS_GOOD:g} points or more)",
                    reading=reading,
                    arms=(baseline, SHARED),
                    noise=noise,
                    least=-AS_GOOD,
                ),
            ]
        return claims

    def columns(self, scale: Scale) -> dict[str, str]:
        """Clean, and under single-target attacks."""
        return {
            "R@1": "R@1",
            "NMI": "NMI",
            "attacked R@1": STAX_FIXED,
            "attacked, large ε": "stax-fixed/stax-large/R@1",
        }

    def drawings(self, scale: Scale) -> list[Drawing]:
        """Clean and attacked R@1."""
        arms = (*BASELINES[scale], "AT", "MDProp-1", SHARED)
        return [Bars(title="With and without a set", arms=arms, figures={"clean": "R@1", "attacked": STAX_FIXED})]

    def notes(self, scale: Scale) -> str:
        """What differs from the paper."""
        return "Small characters, random start, ε 0.03." if scale == "pocket" else ""


@register("M5")
class Drift(Study):
    """The BatchNorm sets drift apart."""

    id = "M5"
    source = "MDProp, Section 5 and Figure 3"
    published = "figure; clean R@1 through the single-target set 0.7 lower, through the multi-target set 1.8 lower"

    def arms(self, scale: Scale) -> list[Arm]:
        """MDProp, and as a measure of chance two sets for the same kind of images."""
        found = (fixed(scale), Probe(function="batchnorm-drift", name="drift"))
        twins = towards(scale, stax=1, mtax=1)
        return named(
            scale,
            {
                "MDProp": training(scale, "MDProp", measures=found),
                TWINS: training(scale, "MDProp", twins, measures=found),
            },
        )

    def claims(self, scale: Scale) -> list[Claim]:
        """In numbers, against chance, and in what the sets do."""
        pairs = [f"{kind}/{a}-{b}" for kind in KINDS for a, b in itertools.combinations(SETS, 2)]
        return [
            All(
                text=f"weights and biases of every pair of sets differ by {APART:g} of their size or more",
                parts=tuple(Beyond(text=p, arm="MDProp", figure=f"drift/{p}", above=APART, noise=0.01) for p in pairs),
            ),
            All(
                text="the sets of single- and multi-target images differ more than two sets of single-target images",
                parts=tuple(
                    Ordered(text=kind, arms=("MDProp", TWINS), figure=f"drift/{kind}/mtax-stax", noise=0.01)
                    for kind in KINDS
                ),
            ),
            All(
                text="clean images are retrieved worse through the sets of moved ones",
                parts=tuple(
                    Lower(
                        text=name,
                        arm="MDProp",
                        figure=f"stax-fixed/set/{name}/R@1",
                        than="stax-fixed/R@1",
                        noise=R1_NOISE[scale],
                    )
                    for name in SETS[1:]
                ),
            ),
        ]

    def columns(self, scale: Scale) -> dict[str, str]:
        """Gaps of all pairs, and clean R@1 through each set."""
        gaps = {
            f"{kind}, {a} to {b}": f"drift/{kind}/{a}-{b}" for kind in KINDS for a, b in itertools.combinations(SETS, 2)
        }
        seen = {f"R@1 through {name}": f"stax-fixed/set/{name}/R@1" for name in SETS[1:]}
        return {"R@1 of 500" if scale == "pocket" else "R@1 of 1,000": "stax-fixed/R@1", **seen, **gaps}

    def drawings(self, scale: Scale) -> list[Drawing]:
        """Gaps layer by layer."""
        return [
            Curves(
                title=f"Relative gap of the {words} of single- and multi-target sets",
                arms=("MDProp", TWINS),
                series=f"drift/{kind}/mtax-stax",
                x="BatchNorm layer",
                y="relative gap",
            )
            for kind, words in KINDS.items()
        ]

    def notes(self, scale: Scale) -> str:
        """What the gap is."""
        return (
            "The gap of two sets is the norm of their difference over the root mean square of their norms, averaged "
            "over the layers. The paper shows a picture without a scale; what two sets of the same kind of images "
            "differ by is our addition."
        )
