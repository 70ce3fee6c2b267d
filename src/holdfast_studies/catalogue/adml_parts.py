"""ADML on the parts of losses: Tables 7 and 8, Figures 4 and 5."""

from __future__ import annotations

from typing import Any

from holdfast_studies.base import Study, register
from holdfast_studies.catalogue import adml_arms
from holdfast_studies.catalogue.adml_arms import HALF, HALF_MARK, PARTS, PARTS_ROW, arm
from holdfast_studies.claims import Beyond, Claim, Ordered
from holdfast_studies.drawings import Bars, Curves, Drawing
from holdfast_studies.jobs import Arm, Probe, Scale

LOSSES = ("linear", "triplet", "margin", "multi-similarity")
ONE_POINT = 0.1
"""Mean distance below which an evaluation calls an embedding collapsed."""
POINT_NOISE = 0.02
"""Of a mean distance with one seed: several times what three seeds of a collapsed arm differ by at pocket scale."""

CLOSE = 0.02
"""Difference in Gaussian energy: twice the paper's largest among the losses that reach it, a fifth of linear's."""

NOISE = 0.005
"""Of the Gaussian energy between two runs of one recipe."""

UNTRAINED: dict[str, Any] = {"epochs": 1, "optimizer.lr": 1e-12}
"""Learns nothing; BatchNorm layers that keep statistics up see the images once."""

ENERGIES: dict[str, dict[str, Any]] = {
    "energy": {"name": "energy"},
    "energy, s = 0": {"name": "energy", "kind": "riesz", "s": 0},
    "energy, s = 1": {"name": "energy", "kind": "riesz", "s": 1},
}
"""Arm → regulariser: the Gaussian one, whose score the table also gives, and the two hyperspherical ones."""

SCALES_DIFFER: dict[Scale, str] = {
    "pocket": "Glyphs, 64 dims and a small network from scratch, 12 epochs, in the place of CUB, 128 dims and ImageNet "
    "ResNet-50, 50 epochs.",
    "paper": "",
}


@register("A6")
class PositiveOnly(Study):
    """Positive-only losses map everything to one point."""

    id = "A6"
    source = "ADML, Table 7"
    published = "CUB mean distance 3.2e-3 linear, 3.2e-3 triplet, 8.2e-2 margin, 3.3e-3 multi-similarity"

    def arms(self, scale: Scale) -> list[Arm]:
        """Four losses without their negative part, and one whole one to compare with."""
        name = "standard" if scale == "pocket" else f"standard, {HALF_MARK}"
        return [
            arm(scale, "standard", name, settings=HALF[scale]),
            *(adml_arms.one_part(scale, loss, "positive") for loss in LOSSES),
        ]

    def claims(self, scale: Scale) -> list[Claim]:
        """One per loss."""
        return [
            Beyond(
                text=f"positive-only {loss} maps everything to one point (mean distance below {ONE_POINT:g})",
                arm=f"{loss}, positive only",
                figure="distance_all",
                below=ONE_POINT,
                noise=POINT_NOISE,
            )
            for loss in LOSSES
        ]

    def columns(self, scale: Scale) -> dict[str, str]:
        """The paper's three distances."""
        return {
            "distance": "distance_all",
            "of positives": "distance_positive",
            "of negatives": "distance_negative",
            "R@1": "R@1",
        }

    def drawings(self, scale: Scale) -> list[Drawing]:
        """Mean distances."""
        names = tuple(arm.name for arm in self.arms(scale))
        return [Bars(title="Mean distance of embedded images", arms=names, figures={"all": "distance_all"}, unit="")]

    def notes(self, scale: Scale) -> str:
        """What differs."""
        return f"{SCALES_DIFFER[scale]} `standard` is the whole multi-similarity loss.".strip()


@register("A7")
class NegativeOnly(Study):
    """Negative-only triplet, margin and multi-similarity are as uniform as energy regularisers; linear is not."""

    id = "A7"
    source = "ADML, Table 8, Figures 4 and 5"
    published = (
        "CUB Gaussian energy 0.594 before, 0.254 linear, 0.150 triplet, 0.147 margin, 0.151 multi-similarity, "
        "0.142 Gaussian energy as the loss, 0.144 and 0.143 hyperspherical energy (s = 0 and 1)"
    )

    def arms(self, scale: Scale) -> list[Arm]:
        """Before training, four losses without their positive part, and energies themselves as losses."""
        measures = (Probe(function="pair-distances"),)
        rows = {"before": UNTRAINED, **{name: {**PARTS_ROW[scale], "loss": own} for name, own in ENERGIES.items()}}
        before, *energies = (
            arm(scale, "standard", name, row=row, settings={**PARTS[scale], **self._first(name)}, measures=measures)
            for name, row in rows.items()
        )
        return [before, *(adml_arms.one_part(scale, loss, "negative", measures) for loss in LOSSES), *energies]

    @staticmethod
    def _first(name: str) -> dict[str, Any]:
        """The untrained network is looked at after its one epoch."""
        return {"epochs": 1, "evaluate_every": 1} if name == "before" else {}

    def claims(self, scale: Scale) -> list[Claim]:
        """One per loss that should reach it, and two for linear."""
        figure, linear = "gaussian_energy", f"{LOSSES[0]}, negative only"
        names = [f"{loss}, negative only" for loss in LOSSES[1:]]
        reach: list[Claim] = [
            Ordered(
                text=f"{name}: as uniform as the energy regulariser (Gaussian energy not higher by over {CLOSE:g})",
                arms=("energy", name),
                figure=figure,
                noise=NOISE,
                least=-CLOSE,
            )
            for name in names
        ]
        return [
            *reach,
            Ordered(
                text=f"{linear}: less uniform than the energy regulariser (Gaussian energy higher by over {CLOSE:g})",
                arms=(linear, "energy"),
                figure=figure,
                noise=NOISE,
                least=CLOSE,
            ),
            *(
                Ordered(text=f"{name}: more uniform than {linear}", arms=(linear, name), figure=figure, noise=NOISE)
                for name in names
            ),
        ]

    def columns(self, scale: Scale) -> dict[str, str]:
        """The paper's three, and what else says how vectors spread."""
        return {
            "Gaussian energy": "gaussian_energy",
            "energy, s = 0": "energy_0",
            "distance": "distance_all",
            "its deviation": "pair-distances/deviation",
            "effective rank": "effective_rank",
            "R@1": "R@1",
        }

    def drawings(self, scale: Scale) -> list[Drawing]:
        """The paper's histograms, and the energies."""
        names = tuple(arm.name for arm in self.arms(scale))
        return [
            Bars(title="Gaussian energy", arms=names, figures={"mean exp(-d²)": "gaussian_energy"}, unit=""),
            Curves(
                title="Distances of pairs of embedded images",
                arms=names,
                series="pair-distances/density",
                x="distance",
                y="density",
            ),
        ]

    def notes(self, scale: Scale) -> str:
        """What differs."""
        return (
            f"{SCALES_DIFFER[scale]} `before` is the starting network with a random head; `energy` learns from the "
            "logarithm of the Gaussian energy, the two others from hyperspherical energies, all from no labels. "
            "Orthogonal vectors have a Gaussian energy of 0.135."
        ).strip()
