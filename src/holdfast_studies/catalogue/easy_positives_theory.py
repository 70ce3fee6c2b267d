"""E6: what the losses prefer under label noise, computed."""

from __future__ import annotations

import dataclasses

from holdfast_studies.base import Study, register
from holdfast_studies.claims import Beyond, Claim
from holdfast_studies.drawings import Curves, Drawing
from holdfast_studies.jobs import Arm, Computation, Probe, Scale
from holdfast_studies.measures.noisy_labels import ENOUGH

MOST_POINTS = 48
STEP = 4


@dataclasses.dataclass(frozen=True, kw_only=True)
class Noise:
    """A setting of the label noise.

    Args:
        name: of its arm.
        classes: how many.
        p: probability that a label is true.
    """

    name: str
    classes: int
    p: float

    def arm(self) -> Arm:
        """From two points per class to 48 in all."""
        arguments = {
            "classes": self.classes,
            "p": self.p,
            "points": list(range(2 * self.classes, MOST_POINTS + 1, STEP)),
            "search": self.classes == 2,
        }
        measure = Probe(function="noisy-labels", arguments=arguments, name="noise")
        differs = () if self == THEOREMS else (f"{self.name} for {THEOREMS.name}",)
        return Arm(name=self.name, job=Computation(measure=measure, differs=differs))


THEOREMS = Noise(name="two classes, p 0.8", classes=2, p=0.8)
NOISIER = Noise(name="two classes, p 0.6", classes=2, p=0.6)
MORE = Noise(name="four classes, p 0.8", classes=4, p=0.8)
LIMIT = Noise(name="four classes, p 0.6", classes=4, p=0.6)


def prefers(text: str, noise: Noise, loss: str, modes: bool, limit: bool = False) -> Claim:
    """Two modes (or collapsed classes) are cheaper with every number of points from 12."""
    figure = f"noise/{loss}, {'most' if modes else 'least'}"
    where = f"{noise.name}, {ENOUGH} to {MOST_POINTS} points"
    return _on_a_side(f"{text}: {where}", noise, figure, 0.0, modes, limit)


def best(text: str, loss: str, modes: bool, where: str = "") -> Claim:
    """The cheapest of all embeddings of 12 points in a triangle, or elsewhere."""
    figure = f"noise/{loss}, collapsed is best{where}"
    text = f"{text}: {THEOREMS.name}, {ENOUGH} points"
    return _on_a_side(text, THEOREMS, figure, 0.5, modes, limit=bool(where))


def _on_a_side(text: str, noise: Noise, figure: str, bound: float, below: bool, limit: bool) -> Claim:
    """A figure on one side of a bound."""
    above, under = (None, bound) if below else (bound, None)
    return Beyond(text=text, limit=limit, arm=noise.name, figure=figure, above=above, below=under)


@register("E6")
class UnderLabelNoise(Study):
    """Under label noise the losses prefer collapsed classes; with easy positives and enough points, two modes."""

    id = "E6"
    source = "EPS, theorems 1 and 2, claims 1 and 2"
    published = "proofs"

    def arms(self, scale: Scale) -> list[Arm]:
        """The setting of the theorems, and how far they reach; the same at both scales."""
        return [noise.arm() for noise in (THEOREMS, NOISIER, MORE, LIMIT)]

    def claims(self, scale: Scale) -> list[Claim]:
        """The theorems in their setting, then how far they reach."""
        return [
            prefers("Theorem 1: triplet prefers collapsed classes", THEOREMS, "triplet", modes=False),
            prefers("Theorem 2: margin prefers collapsed classes", THEOREMS, "margin", modes=False),
            prefers("Claim 1: EPS triplet prefers two modes", THEOREMS, "EPS triplet", modes=True),
            prefers("Claim 2: EPS margin prefers two modes", THEOREMS, "EPS margin", modes=True),
            best("Theorem 1: the best embedding for triplet has collapsed classes", "triplet", modes=False),
            best("Theorem 2: the best embedding for margin has collapsed classes", "margin", modes=False),
            best("Claim 1: the best embedding for EPS triplet has not", "EPS triplet", modes=True),
            best("Claim 2: the best embedding for EPS margin has not", "EPS margin", modes=True),
            *(
                best(f"{rule} also on a line", loss, modes, " on a line")
                for rule, loss, modes in (
                    ("Theorem 1", "triplet", False),
                    ("Theorem 2", "margin", False),
                    ("Claim 1", "EPS triplet", True),
                    ("Claim 2", "EPS margin", True),
                )
            ),
            prefers("Theorem 1 reaches farther", LIMIT, "triplet", modes=False, limit=True),
            prefers("Theorem 2 reaches farther", LIMIT, "margin", modes=False, limit=True),
            prefers("Claim 1 reaches farther", LIMIT, "EPS triplet", modes=True, limit=True),
            prefers("Claim 2 reaches farther", LIMIT, "EPS margin", modes=True, limit=True),
            Beyond(
                text=f"Claim 1 needs no more than 8 points: {THEOREMS.name}",
                arm=THEOREMS.name,
                limit=True,
                figure="noise/EPS triplet at 8",
                below=0.0,
            ),
            *(
                prefers(f"Claim 2 with each anchor's best β {kind}", THEOREMS, f"EPS margin, {loss}", True, limit=True)
                for kind, loss in (("above 0", "best β > 0"), ("of any sign", "best β"))
            ),
        ]

    def columns(self, scale: Scale) -> dict[str, str]:
        """What two modes cost more, at the worst number of points for the claim."""
        return {
            "triplet, least": "noise/triplet, least",
            "margin, least": "noise/margin, least",
            "EPS triplet, most": "noise/EPS triplet, most",
            "EPS triplet, 48 points": f"noise/EPS triplet at {MOST_POINTS}",
            "EPS margin, most": "noise/EPS margin, most",
            "EPS margin, best β, most": "noise/EPS margin, best β, most",
        }

    def drawings(self, scale: Scale) -> list[Drawing]:
        """Where easy positives begin to prefer two modes."""
        arms = tuple(arm.name for arm in self.arms(scale))
        return [
            Curves(
                title=f"What two modes cost more than one: {loss}",
                arms=arms,
                series=f"noise/{loss}",
                x="points",
                y="% of the collapsed embedding",
            )
            for loss in ("triplet", "margin", "EPS triplet", "EPS margin")
        ]

    def notes(self, scale: Scale) -> str:
        """What is computed."""
        return (
            "Computed exactly, without training, so seeds agree. Every class in one point against the first class in "
            "two points, classes and modes one margin apart for triplet and two for margin (the theorems' own "
            "distances), β equal to the margin unless said. Figures are how much more the two modes cost, in per cent: "
            "above 0 the loss prefers collapsed classes. 'Least' and 'most' are over 12 to 48 points. With four "
            "classes and p 0.6, two points of one class share their label less than half of the time (0.41), where the "
            "proof of theorem 2 takes p. Free to choose any β, EPS margin sets it below every distance and the "
            "boundary means nothing. The best embedding is sought among all of 12 points in three places: corners of a "
            "triangle, or 0, 1 and 2 margins on a line, where two modes and a class cannot all be two margins apart."
        )
