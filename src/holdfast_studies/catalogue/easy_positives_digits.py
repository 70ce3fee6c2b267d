"""E1: odd and even digits in the plane."""

from __future__ import annotations

from holdfast_studies.base import Study, register
from holdfast_studies.catalogue.easy_positives_arms import KEEP_GOING, PLAIN, R1_NOISE, Ground
from holdfast_studies.claims import Claim, Ordered
from holdfast_studies.drawings import Bars, Curves, Drawing
from holdfast_studies.jobs import Arm, Measure, Probe, Scale

SEEDS = tuple(range(8))
"""As many runs as the paper's tables have: a network into the plane comes out differently each time."""

LENGTHS: dict[Scale, tuple[int, ...]] = {"pocket": (2,), "paper": (2, 10, 30)}
"""Epochs, which the paper does not say."""

SEEN = {"split": "test", "data": {"protocol": "seen"}}
"""Held-out images of the digits trained on, as in the paper's figure 2."""

ON_MNIST: tuple[Measure, ...] = (
    Probe(function="retrieval", arguments=SEEN, name="seen"),
    Probe(function="plane", arguments=SEEN),
)
ON_DIGITS: tuple[Measure, ...] = (
    Probe(function="retrieval", arguments={"split": "train"}, name="seen"),
    Probe(function="plane", arguments={"split": "train"}),
)
"""Scikit-learn's digits have no images to hold out."""

DIGITS = Ground(
    label="Digits",
    data={"name": "digits", "labels": "coarse", "size": 28},
    recipe="eps-mnist",
    settings={**KEEP_GOING, "epochs": 40, "evaluate_every": 40},
    seeds=SEEDS,
)
PRINTED: dict[str, tuple[float, ...]] = {"R@1": (42.3 - 35.2,), "seen/R@1": (65.8 - 42.0,)}
"""What easy positives add on MNIST in the paper's table."""


def mnist(epochs: int) -> Ground:
    """MNIST, learnt for so long."""
    return Ground(
        label=f"MNIST, {epochs} epochs,",
        data={"name": "mnist", "labels": "coarse"},
        recipe="eps-mnist",
        row={"epochs": epochs},
        settings={**KEEP_GOING, "evaluate_every": epochs},
        seeds=SEEDS,
        reading=f"{epochs} epochs",
    )


def grounds(scale: Scale) -> list[tuple[Ground, tuple[Measure, ...]]]:
    """Where digits are learnt, and what is measured there besides."""
    found = [(mnist(epochs), ON_MNIST) for epochs in LENGTHS[scale]]
    return [*found, (DIGITS, ON_DIGITS)] if scale == "pocket" else found


@register("E1")
class OddAndEven(Study):
    """Trained on odd against even, easy positives keep the digits apart and retrieve unseen ones better."""

    id = "E1"
    source = "EPS, table 1 and figure 2"
    published = (
        "MNIST without and with EPS: test digits R@1 35.2, 42.3, R@5 80.9, 83.9, R@10 93.3, 93.6; train digits R@1 "
        "42.0, 65.8, R@5 87.5, 93.6, R@10 96.6, 97.4"
    )

    def arms(self, scale: Scale) -> list[Arm]:
        """Positives at random and nearest ones, on each set of digits."""
        return [arm for ground, measures in grounds(scale) for arm in ground.pair("triplet", PLAIN, measures)]

    def claims(self, scale: Scale) -> list[Claim]:
        """Unseen digits and seen ones, by length."""
        return [
            Ordered(
                text=f"{ground.label.removesuffix(',')}: {text}",
                arms=ground.names("triplet"),
                figure=figure,
                noise=R1_NOISE,
                printed=() if ground is DIGITS else PRINTED[figure],
                reading=ground.reading,
            )
            for ground, _ in grounds(scale)
            for text, figure in (
                ("EPS retrieves unseen digits (6-9) better", "R@1"),
                ("EPS keeps the digits it trained on (0-5) apart", "seen/R@1"),
            )
        ]

    def columns(self, scale: Scale) -> dict[str, str]:
        """As the paper's table, and R@1 by parity."""
        return {
            "unseen digits R@1": "R@1",
            "unseen R@5": "R@5",
            "unseen R@10": "R@10",
            "seen digits R@1": "seen/R@1",
            "seen R@5": "seen/R@5",
            "seen R@10": "seen/R@10",
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
        """What the paper leaves open."""
        return (
            "The paper's network in the plane and its triplets on squared distances, margin 0.2; positives at random "
            "or nearest, negatives at random. Adam at 1e-3, batches of 80 odd and 80 even images: the paper gives no "
            "rule for negatives, no length, no batch and no learning rate. All figures on MNIST are of its held-out "
            "images, as the paper's figure 2."
            + (" 'Digits' are scikit-learn's 8×8 scans, 40 epochs." if scale == "pocket" else "")
        )
