"""E4: how many positives there are to choose from."""

from __future__ import annotations

from typing import Any

from holdfast_studies.base import Study, register
from holdfast_studies.catalogue.easy_positives_arms import LOSSES, OMNIGLOT, R1_NOISE, SEEN
from holdfast_studies.catalogue.easy_positives_letters import setting
from holdfast_studies.claims import Claim, Ordered
from holdfast_studies.drawings import Drawing, Lines
from holdfast_studies.jobs import Arm, Scale

IMAGES: dict[Scale, int] = {"pocket": 112, "paper": 160}
"""Of one update."""

PARTS: dict[Scale, dict[int, int]] = {"pocket": {2: 2, 4: 1, 8: 1}, "paper": {2: 4, 4: 2, 8: 1}}
"""Images per class → batches that make one update: there are 30 languages, and few images of each do not fill one."""

USUAL = 16
"""Images per class of E3's batches: the largest number here is its training."""


@register("E4")
class PositivesInBatch(Study):
    """More positives in a batch to choose the easiest from, better letters."""

    id = "E4"
    source = "EPS, figure 5b"
    published = "a figure: letters R@1 of EPS + margin rises with the number of positives in the batch"

    def arms(self, scale: Scale) -> list[Arm]:
        """EPS + margin in batches of one size; the fewer languages, the more drawings of each."""
        ground, pair = OMNIGLOT[scale], LOSSES["margin"]
        fewer = []
        for number, parts in PARTS[scale].items():
            classes = IMAGES[scale] // number
            row = {**pair.easy, "batch.classes": classes, "batch.per_class": number}
            ours: dict[str, Any] = {} if parts == 1 else {"batch.classes": classes // parts, "accumulate": parts}
            if scale == "pocket":
                ours = {"batch.classes": classes // parts, "batch.per_class": number, **ours}
            fewer.append(ground.arm(f"{number} per language", row, settings=ours))
        return [
            *fewer,
            ground.arm(f"{USUAL} per language", pair.easy, (SEEN,)),
            ground.arm("without EPS", pair.usual, (SEEN,)),
        ]

    def claims(self, scale: Scale) -> list[Claim]:
        """The ends of the curve, and each step of it."""
        rising = tuple(f"Omniglot {number} per language" for number in (USUAL, *reversed(PARTS[scale])))
        return [
            Ordered(
                text="16 drawings of a language to choose from beat 2", arms=(rising[0], rising[-1]), noise=R1_NOISE
            ),
            Ordered(text="every doubling helps", arms=rising, noise=R1_NOISE),
        ]

    def columns(self, scale: Scale) -> dict[str, str]:
        """Both label sets."""
        return {"letters R@1": "R@1", "languages R@1": "coarse/R@1", "letters NMI": "NMI"}

    def drawings(self, scale: Scale) -> list[Drawing]:
        """Figure 5b."""
        line = {float(number): f"Omniglot {number} per language" for number in (*PARTS[scale], USUAL)}
        return [
            Lines(
                title="Letters by the number of drawings of a language in the batch",
                lines={"EPS + margin": line},
                x="drawings per language",
                logarithmic=True,
            )
        ]

    def notes(self, scale: Scale) -> str:
        """Why small numbers take several batches."""
        return (
            f"{setting(scale)} Every update sees equally many images. There are 30 languages, so few drawings of each "
            "do not fill a batch; then several batches, mined apart, make one update."
        )
