"""E5: trimming the loss in the place of easy positives."""

from __future__ import annotations

from holdfast_studies.base import Study, register
from holdfast_studies.catalogue.easy_positives_arms import LOSSES, OMNIGLOT, PLAIN, R1_NOISE, SEEN, Pair
from holdfast_studies.catalogue.easy_positives_letters import setting
from holdfast_studies.claims import All, Claim, Ordered
from holdfast_studies.drawings import Drawing, Lines
from holdfast_studies.jobs import Arm, Measure, Scale

KEPT: dict[str, tuple[float, ...]] = {"margin": (0.9, 0.7, 0.5), "random triplet": (0.9, 0.7)}
"""Shares of the tuples that still count."""

PAIRS: dict[str, tuple[Pair, tuple[Measure, ...]]] = {
    "margin": (LOSSES["margin"], (SEEN,)),
    "random triplet": (PLAIN, ()),
}
"""Losses that are trimmed, with the measures that E3 takes of the same training."""


@register("E5")
class Trimming(Study):
    """Leaving out the costliest tuples does not replace easy positives."""

    id = "E5"
    source = "EPS, section 5.2.5 and figure 4"
    published = "a figure: trimming gains a little with distance-weighted margin on Omniglot letters, nowhere else"

    def arms(self, scale: Scale) -> list[Arm]:
        """Each loss whole, trimmed, and with easy positives."""
        ground, arms = OMNIGLOT[scale], []
        for name, (pair, measures) in PAIRS.items():
            arms += ground.pair(name, pair, measures)
            for keep in KEPT[name]:
                trimmed = {"name": "trimmed", "keep": keep, "loss": pair.usual["loss"]}
                arms.append(ground.arm(f"{name}, keep {keep:g}", {**pair.usual, "loss": trimmed}))
        return arms

    def claims(self, scale: Scale) -> list[Claim]:
        """EPS is above every trimmed loss."""
        return [
            All(
                text=f"Omniglot letters: no trimming of {name} comes up to EPS",
                parts=tuple(
                    Ordered(
                        text=f"keep {keep:g}",
                        arms=(f"Omniglot {name} + EPS", f"Omniglot {name}, keep {keep:g}"),
                        noise=R1_NOISE,
                    )
                    for keep in KEPT[name]
                ),
            )
            for name in PAIRS
        ]

    def columns(self, scale: Scale) -> dict[str, str]:
        """Both label sets."""
        return {"letters R@1": "R@1", "languages R@1": "coarse/R@1", "letters NMI": "NMI"}

    def drawings(self, scale: Scale) -> list[Drawing]:
        """Figure 4, with EPS as a level line."""
        lines: dict[str, dict[float, str]] = {}
        for name, kept in KEPT.items():
            lines[name] = {1.0: f"Omniglot {name}"} | {keep: f"Omniglot {name}, keep {keep:g}" for keep in kept}
            lines[f"{name} + EPS"] = dict.fromkeys((min(kept), 1.0), f"Omniglot {name} + EPS")
        return [Lines(title="Letters by the share of tuples kept", lines=lines, x="share kept")]

    def notes(self, scale: Scale) -> str:
        """As E3."""
        return f"{setting(scale)} Random triplets are trimmed as in the paper, margin with distance-weighted negatives."
