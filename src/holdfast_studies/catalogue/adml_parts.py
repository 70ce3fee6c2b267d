"""ADML on the parts of losses: Tables 7 and 8, Figures 4 and 5."""

from __future__ import annotations

from typing import Any

from holdfast_studies.base import Plan, study
from holdfast_studies.catalogue import adml_arms
from holdfast_studies.catalogue.adml_arms import PARTS, PARTS_ROW
from holdfast_studies.claims import Beyond, Ordered
from holdfast_studies.drawing import Bars, Curves
from holdfast_studies.jobs import Probe, Scale, called

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
