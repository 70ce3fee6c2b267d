"""E1: odd and even digits in the plane."""

from __future__ import annotations

from holdfast.studies.base import Study, register
from holdfast.studies.catalogue.easy_positives_arms import KEEP_GOING, ONE_POSITIVE, R1_NOISE, SEEN_SAMPLE, Ground
from holdfast.studies.claims import Claim, Ordered
from holdfast.studies.drawings import Bars, Curves, Drawing
from holdfast.studies.jobs import Arm, Probe, Scale

SEEDS = tuple(range(8))
"""More than elsewhere: a network into the plane comes out differently each time."""

MNIST_SEEDS = tuple(range(40))
"""As many as it takes to tell half of the published difference from none (about 10 points between seeds)."""

MNIST = Ground(
    label="MNIST",
    data={"name": "mnist", "labels": "coarse"},
    recipe="eps-mnist",
    settings={**KEEP_GOING},
    seeds=MNIST_SEEDS,
)
LONGER = Ground(
    label="MNIST",
    data={"name": "mnist", "labels": "coarse"},
    recipe="eps-mnist",
    settings={**KEEP_GOING, "epochs": 10},
    seeds=SEEDS,
)
DIGITS = Ground(
    label="Digits",
    data={"name": "digits", "labels": "coarse", "size": 28},
    recipe="eps-mnist",
    settings={**KEEP_GOING, "epochs": 40, "evaluate_every": 40},
    seeds=SEEDS,
)
PRINTED: dict[str, tuple[float, ...]] = {"R@1": (42.3 - 35.2,), "seen/R@1": (65.8 - 42.0,)}
"""What easy positives add on MNIST in the paper's table."""
WHERE = Probe(function="plane", arguments={"split": "train"})
"""Figure 2: the digits trained on, in the plane."""

GROUNDS: dict[Scale, tuple[Ground, ...]] = {"pocket": (MNIST, DIGITS), "paper": (LONGER,)}


@register("E1")
class OddAndEven(Study):
    """Trained on odd against even, easy positives keep the digits apart and retrieve unseen ones better."""

    id = "E1"
    source = "EPS, table 1 and figure 2"
    published = "MNIST R@1 without and with EPS: test digits 35.2, 42.3; train digits 42.0, 65.8"

    def arms(self, scale: Scale) -> list[Arm]:
        """Positives at random and nearest ones, on each set of digits."""
        measures = (SEEN_SAMPLE, WHERE)
        return [arm for ground in GROUNDS[scale] for arm in ground.pair("triplet", ONE_POSITIVE, measures)]

    def claims(self, scale: Scale) -> list[Claim]:
        """Unseen digits and seen ones."""
        return [
            Ordered(
                text=f"{ground.label}: {text}",
                arms=ground.names("triplet"),
                figure=figure,
                noise=R1_NOISE,
                printed=() if ground is DIGITS else PRINTED[figure],
            )
            for ground in GROUNDS[scale]
            for text, figure in (
                ("EPS retrieves unseen digits (6-9) better", "R@1"),
                ("EPS keeps the digits it trained on (0-5) apart", "seen/R@1"),
            )
        ]

    def columns(self, scale: Scale) -> dict[str, str]:
        """R@1 by digit and by parity."""
        return {
            "unseen digits R@1": "R@1",
            "unseen R@8": "R@8",
            "seen digits R@1": "seen/R@1",
            "seen NMI": "seen/NMI",
            "unseen parity R@1": "coarse/R@1",
            "seen parity R@1": "seen/coarse/R@1",
        }

    def drawings(self, scale: Scale) -> list[Drawing]:
        """Table 1 as bars, figure 2 as clouds."""
        arms = tuple(arm.name for arm in self.arms(scale))
        figures = {"unseen digits": "R@1", "seen digits": "seen/R@1"}
        return [
            Bars(title="Digits retrieved after learning odd from even", arms=arms, figures=figures),
            Curves(
                title="Digits 0-5 in the plane", arms=arms, series="plane/points", x="first", y="second", points=True
            ),
        ]

    def notes(self, scale: Scale) -> str:
        """Training length, and what the paper leaves open."""
        length = "two passes over MNIST" if scale == "pocket" else "ten passes over MNIST"
        return (
            f"The paper's network in the plane, {length}; Adam at 1e-3, batches of 80 odd and 80 even images. Both "
            "arms draw negatives semi-hard; they differ in the positive only. The paper gives no rule for negatives, "
            "no length and no learning rate. Seen digits are measured on 6,000 of the training images."
            + (
                " 'Digits' are scikit-learn's 8×8 scans. With three seeds the unseen digits were undecided on both "
                "sets; five were added then for all arms, and with eight, level on MNIST (-0.8 ± 5.9), sixteen more "
                "there, together with the rule that half of the printed difference out of reach refutes the claim; "
                "with 23 of these the upper bound was 4.1 for the 3.55 of that rule, and sixteen more were planned. "
                "Four looks; the interval is not corrected for them."
                if scale == "pocket"
                else ""
            )
        )
