"""ADML under attack: Tables 1, 4 and 5, Figure 3."""

from __future__ import annotations

import dataclasses
from typing import ClassVar

from holdfast_studies.base import Study, register
from holdfast_studies.catalogue import adml_arms
from holdfast_studies.catalogue.adml_arms import (
    ATTACKED_NOISE,
    GOALS,
    HALF_EPOCHS,
    LIMITS,
    NORMALISED,
    PIXELS,
    UNITS,
    USUAL,
    WEIGHTS,
    arm,
    attacks,
    series,
)
from holdfast_studies.catalogue.adml_claims import Lower, no_prediction
from holdfast_studies.claims import All, Claim, Judged, Ordered, gaps
from holdfast_studies.drawings import Bars, Drawing, Lines
from holdfast_studies.jobs import Arm, Probe, Scale

FAR = 5.0
"""Points of R@1 that count as far more; the paper's smallest gap is 15."""

ORDER_NOISE: dict[Scale, float] = {"pocket": ATTACKED_NOISE, "paper": 1.0}
"""Of the order in A3. On CUB less than a tenth of R@1 is left under these attacks, and 1.645 × the standard deviation
of a difference is 0.4 (standard training and +T, three seeds, the whole set replaced); doubled and rounded up for arms
with one seed."""

GLYPHS = (
    "Glyphs and a small network from scratch, 24 epochs, three attack steps in training, in the place of CUB and "
    "ImageNet ResNet-50, 100 epochs and seven steps. Attacks of the evaluation are the paper's."
)
UNSAID = (
    "The paper says neither in which units ε is nor what its class-balanced batches are made of; a reading holds for "
    "training and attack alike. Where nothing else is said, the whole set is attacked in batches of 56 classes × 2 "
    "images, as its framework makes them."
)
SAMPLED = f"Of single queries {LIMITS['pocket']:,} are attacked."
ATTACKED = ("triplet", "alignment", "uniformity")


@register("A1")
class AttacksOnTrained(Study):
    """Alignment and uniformity attacks hurt a trained model far more than the triplet attack."""

    id = "A1"
    source = "ADML, Table 1"
    published = "CUB R@1 62.4 clean; 28.3 triplet, 8.7 alignment, 13.5 uniformity"

    def arms(self, scale: Scale) -> list[Arm]:
        """One trained model: at paper scale the paper's, with triplets and distance-weighted mining."""
        measures = tuple(attacks(scale).values())
        if scale == "pocket":
            return [arm(scale, "standard", measures=measures)]
        return [arm(scale, "standard", "Triplet-D", recipe="resnet50-triplet", measures=measures)]

    def claims(self, scale: Scale) -> list[Claim]:
        """In every reading of the attack."""
        (attacked,) = self.arms(scale)
        return [
            All(
                text=f"alignment and uniformity attacks lower R@1 by {FAR:g} points more than the triplet attack",
                reading=reading,
                parts=tuple(
                    Lower(
                        text=goal,
                        arm=attacked.name,
                        figure=f"{audit.prefix}/{goal}/R@1",
                        than=f"{audit.prefix}/triplet/R@1",
                        noise=ATTACKED_NOISE,
                        least=FAR,
                    )
                    for goal in ("alignment", "uniformity")
                ),
            )
            for reading, audit in attacks(scale).items()
        ]

    def columns(self, scale: Scale) -> dict[str, str]:
        """R@1 before and after, in every reading."""
        return {"R@1": "R@1"} | {
            f"{attack}, {reading}": f"{audit.prefix}/{attack}/R@1"
            for reading, audit in attacks(scale).items()
            for attack in ATTACKED
        }

    def drawings(self, scale: Scale) -> list[Drawing]:
        """R@1 under every attack."""
        names = tuple(arm.name for arm in self.arms(scale))
        return [Bars(title="R@1 of a trained model under attack", arms=names, figures=self.columns(scale))]

    def notes(self, scale: Scale) -> str:
        """What differs."""
        hinge = "The triplet attack has its hinge, as printed."
        if scale == "paper":
            return f"{UNSAID} {hinge}"
        return (
            f"{GLYPHS} The paper's model learns from triplets, ours with multi-similarity. {UNSAID} {SAMPLED} {hinge}"
        )


@register("A3")
class RobustnessGrows(Study):
    """Under the alignment attack A > U > T > none, and robustness grows with λ."""

    id = "A3"
    source = "ADML, Tables 4 and 5"
    published = (
        "CUB R@1 8.9 standard, 11.6 +T, 15.1 +U, 17.4 +A; λ 0, 0.2 ... 1: 8.9, 19.2, 22.5, 24.5, 25.3, 25.9 (+A), "
        "8.9, 16.2, 18.4, 20.2, 21.1, 21.6 (+U)"
    )

    order = ("+A", "+U", "+T", "standard")
    printed = gaps((17.37, 15.10, 11.58, 8.90))
    growing: ClassVar[dict[str, tuple[float, ...]]] = {
        "+A": (8.90, 19.15, 22.51, 24.47, 25.29, 25.93),
        "+U": (8.90, 16.21, 18.36, 20.23, 21.06, 21.55),
    }
    """Kind → R@1 with λ 0, 0.2, 0.4, 0.6, 0.8 and 1."""
    least: ClassVar[dict[Scale, float]] = {"pocket": 0.1, "paper": 0.2}
    """λ from which robustness should grow."""

    def arms(self, scale: Scale) -> list[Arm]:
        """Standard, +T, +U and +A in both readings, each attacked in its own; both kinds with larger λ."""
        both = attacks(scale)
        units = {reading: [a for said, a in both.items() if said.startswith(reading)] for reading in UNITS}
        usual, other = units[USUAL[scale]], units[PIXELS if USUAL[scale] == NORMALISED else NORMALISED]
        main = [arm(scale, "standard", measures=tuple(both.values()))]
        main += adml_arms.variants(scale, ("+T", "+U", "+A"), tuple(usual))
        if scale == "paper":
            main += adml_arms.others(scale, ("+T", "+U", "+A"), tuple(other))
        weights = tuple(w for own in WEIGHTS[scale].values() for w in own if w >= self.least[scale])
        known = {one.name for one in main}
        return main + [a for a in adml_arms.weighted(scale, weights, tuple(usual[:1])) if a.name not in known]

    def claims(self, scale: Scale) -> list[Claim]:
        """The order in every reading, growth with λ in the usual one."""
        return [*self._orders(scale), *(self._grows(scale, kind) for kind in WEIGHTS[scale])]

    def _orders(self, scale: Scale) -> list[Claim]:
        found: list[Claim] = []
        for reading, audit in attacks(scale).items():
            units = next(unit for unit in UNITS if reading.startswith(unit))
            if scale == "pocket" and units != USUAL[scale]:
                continue
            suffix = "" if units == USUAL[scale] else f" {adml_arms.SUFFIX[units]}"
            found.append(
                Ordered(
                    text="robustness to the alignment attack: +A > +U > +T > standard",
                    reading=reading,
                    arms=tuple(kind if kind == "standard" else kind + suffix for kind in self.order),
                    figure=f"{audit.prefix}/alignment/R@1",
                    noise=ORDER_NOISE[scale],
                    printed=self.printed if scale == "paper" else (),
                )
            )
        return found

    def _grows(self, scale: Scale, kind: str) -> Claim:
        names = {w: name for w, name in series(scale, kind).items() if w == 0 or w >= self.least[scale]}
        return Ordered(
            text=f"robustness to the alignment attack grows with λ ({', '.join(f'{w:g}' for w in names)}) in {kind}",
            reading=USUAL[scale],
            arms=tuple(reversed(names.values())),
            figure=f"{attacks(scale)[USUAL[scale]].prefix}/alignment/R@1",
            noise=ORDER_NOISE[scale],
            printed=gaps(self.growing[kind][::-1]) if scale == "paper" else (),
        )

    def columns(self, scale: Scale) -> dict[str, str]:
        """Clean R@1, then under the alignment attack, in every reading."""
        return {"R@1": "R@1"} | {
            f"alignment, {reading}": f"{audit.prefix}/alignment/R@1" for reading, audit in attacks(scale).items()
        }

    def drawings(self, scale: Scale) -> list[Drawing]:
        """R@1 under the alignment attack against λ."""
        lines = {
            kind: {w: name for w, name in series(scale, kind).items() if w == 0 or w >= self.least[scale]}
            for kind in WEIGHTS[scale]
        }
        figure = f"{attacks(scale)[USUAL[scale]].prefix}/alignment/R@1"
        return [Lines(title="R@1 under the alignment attack against λ", lines=lines, figure=figure, x="λ")]

    def notes(self, scale: Scale) -> str:
        """What differs."""
        if scale == "pocket":
            return f"{GLYPHS} {UNSAID} {SAMPLED}"
        return (
            f"{UNSAID} λ grows in trainings of {HALF_EPOCHS} of the paper's 100 epochs. That half of a "
            "printed difference out of reach refutes an order, and that arms with so little left differ by 1 point at "
            "most with one seed, were made rules after one seed of all four arms had been seen in another setting."
        )


@register("A8")
class HardnessPredictsNothing(Study):
    """How hard an attack is does not predict the clean gain of training on it."""

    id = "A8"
    source = "ADML, Figure 3"
    published = "a figure, said to show no significant correlation"

    def probes(self, scale: Scale) -> dict[str, Probe]:
        """Arm → the attack it learns from, tried on the standard model."""
        arms = {kind: (kind, USUAL[scale]) for kind in GOALS}
        arms |= {one.name: (one.name.split()[0], one.reading) for one in adml_arms.others(scale)}
        found = {}
        for name, (kind, reading) in arms.items():
            goal = {"goal": GOALS[kind]["name"], **{k: v for k, v in GOALS[kind].items() if k != "name"}}
            units = {} if reading == PIXELS else {"units": UNITS[reading]}
            arguments = {**goal, "limit": LIMITS[scale], **units}
            found[name] = Probe(function="attack-strength", arguments=arguments, name=f"strength{name}")
        return found

    def arms(self, scale: Scale) -> list[Arm]:
        """All kinds of adversaries, and the standard model that they are tried on; units are but a strength here."""
        standard = arm(scale, "standard", measures=tuple(self.probes(scale).values()))
        learnt = adml_arms.variants(scale)[1:] + adml_arms.others(scale)
        return [standard, *(dataclasses.replace(one, reading="") for one in learnt)]

    def claims(self, scale: Scale) -> list[Claim]:
        """Hardness as the drop in R@1, and as the distance moved."""
        words = {"drop": "how far it lowers R@1", "shift": "how far it moves embeddings"}
        return [
            Judged(
                text=f"the hardness of an attack ({how}) does not predict the clean gain of training on it",
                rule=no_prediction(
                    {name: f"{probe.prefix}/{key}" for name, probe in self.probes(scale).items()}, "standard"
                ),
            )
            for key, how in words.items()
        ]

    def columns(self, scale: Scale) -> dict[str, str]:
        """Clean R@1 of every arm; what the attacks do to the standard model stands in its row."""
        return {"R@1": "R@1"} | {
            f"drop by {name}": f"{probe.prefix}/drop" for name, probe in self.probes(scale).items()
        }

    def drawings(self, scale: Scale) -> list[Drawing]:
        """Hardness beside gain."""
        columns = self.columns(scale)
        drops = {heading.removeprefix("drop by "): figure for heading, figure in columns.items() if figure != "R@1"}
        arms = tuple(arm.name for arm in self.arms(scale))
        return [
            Bars(title="Points of R@1 that each attack costs the standard model", arms=("standard",), figures=drops),
            Bars(title="Clean R@1 after training on each attack", arms=arms, figures={"R@1": "R@1"}),
        ]

    def notes(self, scale: Scale) -> str:
        """What differs."""
        own = f"{GLYPHS} " * (scale == "pocket")
        return (
            f"{own}The paper's figure varies the hardness within +T and within +A; here six attacks of different kinds "
            "and units are compared. With six, a rank correlation beyond 0.82, up or down, refutes the claim, and none "
            "could confirm it (13 attacks might): undecided is the likely verdict, and no evidence for either side. At "
            "first a strong negative correlation confirmed it; that was put right after results were seen."
        )
