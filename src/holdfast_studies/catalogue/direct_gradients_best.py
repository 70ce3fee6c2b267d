"""The best combination of components, and what directions do to triplets: studies G4 and G5."""

from __future__ import annotations

from holdfast.gradients import RULES
from holdfast_studies.base import Study, register
from holdfast_studies.catalogue.direct_gradients import DIRECTIONS, NOTES
from holdfast_studies.catalogue.direct_gradients_arms import COMPARISON, DIRECTIONS_ON, R1_NOISE, Ground
from holdfast_studies.catalogue.direct_gradients_claims import VALIDATION, tuned
from holdfast_studies.claims import Claim, Ordered
from holdfast_studies.drawings import Curves, Drawing, Lines
from holdfast_studies.jobs import Arm, Probe, Scale

NAMED = {"best": RULES["best"], "DR-MS": RULES["dr-ms"], "MS": RULES["ms"]}
COMPRESSED = {name: DIRECTIONS[name] for name in ("euc", "cos")}
DIAGRAM: dict[Scale, Probe] = {
    "pocket": Probe(function="triplet-diagram", arguments={"bound": 0.8}, name="triplets"),
    "paper": Probe(function="triplet-diagram", arguments={"bound": 0.8, "epochs": 5}, name="triplets"),
}
PARTS: dict[Scale, tuple[str, ...]] = {"pocket": ("train", "test"), "paper": ("batches", "train", "test")}
"""Columns of the figure: batches of the last five epochs, the whole train set, the whole test set."""

PRINTED: dict[str, dict[str, float]] = {
    "CARS": {"MS": 79.0, "DR-MS": 79.9, "best": 82.5, "256": 85.5, "384": 86.5, "512": 85.7},
    "CUB": {"MS": 59.8, "DR-MS": 60.7, "best": 63.5, "256": 63.8, "384": 63.8, "512": 63.1},
}
"""R@1 of Table 5; of best in larger batches by their size."""


@register("G4")
class BestCombination(Study):
    """The best components together, against MS and DR-MS, and in larger batches."""

    id = "G4"
    source = "GS, Table 5"
    published = (
        "R@1 on CUB: MS 59.8, DR-MS 60.7, best 63.5 (batch 128), 63.8 (256), 63.8 (384), 63.1 (512); on CARS: 79.0,"
        " 79.9, 82.5, 85.5, 86.5, 85.7"
    )

    def arms(self, scale: Scale) -> list[Arm]:
        """Named rules in the usual batch, the best one also in others."""
        found = []
        for ground in COMPARISON[scale]:
            found += ground.arms(NAMED)
            found += [
                ground.arm(in_batch(ground, classes), NAMED["best"], rate, classes)
                for classes in ground.classes
                if classes != ground.usual
                for rate in ground.rates_of("best")
            ]
        return found

    def claims(self, scale: Scale) -> list[Claim]:
        """Above both, and higher in a batch of three times the size, but not in one of four."""
        found: list[Claim] = []
        for ground in COMPARISON[scale]:
            small, _, large, *beyond = (in_batch(ground, classes) for classes in ground.classes)
            known = PRINTED.get(ground.label, {})
            compared = {
                "best retrieves better than MS": ("best", "MS", "best", "MS"),
                "best retrieves better than DR-MS": ("best", "DR-MS", "best", "DR-MS"),
                "best gains from larger batches": (large, small, "384", "best"),
                **({"batches of 512 are too large": (large, beyond[0], "384", "512")} if beyond else {}),
            }
            for text, (more, less, upper, lower) in compared.items():
                claim = Ordered(
                    text=ground.name(text),
                    arms=(ground.name(more), ground.name(less)),
                    noise=R1_NOISE,
                    printed=(known[upper] - known[lower],) if known else (),
                )
                found.append(tuned(claim, self._grids(ground, (more, less))))
        return found

    def _grids(self, ground: Ground, rules: tuple[str, ...]) -> dict[str, tuple[str, ...]]:
        """Rule → its arms; in another batch the best one has the rates that it has in the usual one."""
        return {
            ground.name(rule): tuple(ground.arm_name(rule, rate) for rate in ground.rates_of(rule.partition(" in ")[0]))
            for rule in rules
        }

    def columns(self, scale: Scale) -> dict[str, str]:
        """As the paper's table, and what the learning rate is chosen by."""
        chosen = {"validation R@1": VALIDATION} if scale == "pocket" else {}
        return {"R@1": "R@1", "R@2": "R@2", "R@4": "R@4", **chosen}

    def drawings(self, scale: Scale) -> list[Drawing]:
        """R@1 of the best rule against the size of the batch."""
        return [
            Lines(
                title=f"{ground.name('')} R@1 by size of the batch".strip(),
                lines={
                    f"learning rate {rate:g}": {
                        float(classes * ground.per_class): ground.arm_name(in_batch(ground, classes), rate)
                        for classes in ground.classes
                    }
                    for rate in ground.rates_of("best")
                },
                x="images in a batch",
                logarithmic=True,
            )
            for ground in COMPARISON[scale]
        ]

    def notes(self, scale: Scale) -> str:
        """Also what the rules and batches are."""
        return (
            f"{NOTES[scale]} MS and DR-MS are direct gradients as in the paper, not the losses of that name. Batches of"
            " all sizes get the same number of epochs, so that a larger batch takes fewer steps, and one learning rate"
            " (the paper does not say which)."
        )


@register("G5")
class TripletDiagrams(Study):
    """Triplet diagrams: the euclidean direction piles triplets up in the top right corner."""

    id = "G5"
    source = "GS, Figure 5"
    published = (
        "figure: with euc more triplets of nearest positive and nearest negative lie close to the top right corner"
    )

    def arms(self, scale: Scale) -> list[Arm]:
        """The two directions of G1, looked at more closely."""
        return [arm for ground in DIRECTIONS_ON[scale] for arm in ground.arms(COMPRESSED, (DIAGRAM[scale],))]

    def claims(self, scale: Scale) -> list[Claim]:
        """More triplets in the corner, on both halves of the data; in training batches, along the right edge."""
        found: list[Claim] = []
        for ground in DIRECTIONS_ON[scale]:
            texts = {
                f"triplets/{split}/corner": f"euc leaves more {split} images in the top right corner than cos"
                for split in ("train", "test")
            }
            if scale == "paper":
                texts["triplets/batches/edge"] = "euc has more of its last batches along the right edge than cos"
            for figure, text in texts.items():
                arms = (ground.name("euc"), ground.name("cos"))
                claim = Ordered(text=ground.name(text), arms=arms, figure=figure, noise=2.0)
                found.append(tuned(claim, ground.grids(COMPRESSED)))
        return found

    def columns(self, scale: Scale) -> dict[str, str]:
        """Shares of triplets, and where they lie on average."""
        return {
            **({"batches edge": "triplets/batches/edge"} if scale == "paper" else {}),
            "train corner": "triplets/train/corner",
            "test corner": "triplets/test/corner",
            "test edge": "triplets/test/edge",
            "test s_ap": "triplets/test/near",
            "test s_an": "triplets/test/far",
            "test overlap": "triplets/test/overlap",
            "R@1": "R@1",
            **({"validation R@1": VALIDATION} if scale == "pocket" else {}),
        }

    def drawings(self, scale: Scale) -> list[Drawing]:
        """The diagrams of training batches, train and test images."""
        return [
            Curves(
                title=f"{ground.name('')} triplet diagram, {'training' if split == 'batches' else split} "
                f"{'batches' if split == 'batches' else 'images'}".strip(),
                arms=tuple(arm for arms in ground.grids(COMPRESSED).values() for arm in arms),
                series=f"triplets/{split}",
                x="similarity to the nearest positive",
                y="similarity to the nearest negative",
                points=True,
            )
            for ground in DIRECTIONS_ON[scale]
            for split in PARTS[scale]
        ]

    def notes(self, scale: Scale) -> str:
        """Also what a corner is."""
        return (
            f"{NOTES[scale]} Each image is a triplet with its nearest positive and nearest negative among the images of"
            " its split. The paper shows the corner without a number; here it is s_ap > 0.8 and s_an > 0.8. Corner,"
            " edge (s_ap > 0.8) and overlap (of the distributions of s_ap and s_an) are shares in percent. Training"
            " batches are those of the last five epochs, drawn again as they were and seen by the final model."
        )


def in_batch(ground: Ground, classes: int) -> str:
    """What the best rule is called in a batch of so many classes."""
    return "best" if classes == ground.usual else f"best in batches of {classes * ground.per_class}"
