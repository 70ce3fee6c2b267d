"""E2: easy positives with three losses on fine labels."""

from __future__ import annotations

from holdfast.studies.base import Study, register
from holdfast.studies.catalogue.easy_positives_arms import GLYPHS, LOSSES, R1_NOISE, Ground, photographs
from holdfast.studies.catalogue.paper_settings import budget
from holdfast.studies.claims import Claim, Ordered
from holdfast.studies.drawings import Bars, Drawing
from holdfast.studies.jobs import Arm, Scale

PRINTED: dict[str, dict[str, tuple[float, ...]]] = {
    "CARS": {"triplet": (78.3 - 76.1,), "margin": (83.6 - 79.6,), "MS": (82.9 - 81.2,)},
    "CUB": {"triplet": (61.8 - 61.5,), "margin": (64.7 - 63.6,), "MS": (63.3 - 62.3,)},
}
"""What easy positives add in the paper's table."""

GROUNDS: dict[Scale, tuple[Ground, ...]] = {"pocket": (GLYPHS,), "paper": (photographs("cub"), photographs("cars"))}


@register("E2")
class ThreeLosses(Study):
    """Easy positives improve triplet, margin and multi-similarity."""

    id = "E2"
    source = "EPS, table 2"
    published = (
        "R@1 without and with EPS: CARS 76.1, 78.3 (triplet), 79.6, 83.6 (margin), 81.2, 82.9 (MS); "
        "CUB 61.5, 61.8 (triplet), 63.6, 64.7 (margin), 62.3, 63.3 (MS)"
    )

    def arms(self, scale: Scale) -> list[Arm]:
        """Three losses without and with easy positives on each dataset."""
        return [arm for ground in GROUNDS[scale] for name, pair in LOSSES.items() for arm in ground.pair(name, pair)]

    def claims(self, scale: Scale) -> list[Claim]:
        """By dataset and loss."""
        return [
            Ordered(
                text=f"{ground.label}: EPS improves {name}",
                arms=ground.names(name),
                noise=R1_NOISE,
                printed=PRINTED.get(ground.label, {}).get(name, ()),
            )
            for ground in GROUNDS[scale]
            for name in LOSSES
        ]

    def columns(self, scale: Scale) -> dict[str, str]:
        """As the paper's table."""
        return {"R@1": "R@1", "R@2": "R@2", "R@4": "R@4", "NMI": "NMI", "NMI+": "NMI+"}

    def drawings(self, scale: Scale) -> list[Drawing]:
        """Table 2 as bars."""
        arms = tuple(arm.name for arm in self.arms(scale))
        return [Bars(title="Easy positives with three losses", arms=arms, figures={"R@1": "R@1"})]

    def notes(self, scale: Scale) -> str:
        """Batches, and what stands for the paper's data."""
        if scale == "paper":
            return (
                "Batches of 160 as in the paper, as 40 classes of 4 images (the paper does not say); ImageNet "
                f"ResNet-50 with BatchNorm statistics frozen. {budget(batch='40 classes × 4 images')}"
            )
        return (
            "Embedded glyphs with a small network from scratch in the place of CUB and CARS with an ImageNet "
            "ResNet-50; 28 classes of 4 images a batch, 24 epochs. A character has fewer looks than a car has sides."
        )
