"""M3: MDProp with little data."""

from __future__ import annotations

from holdfast_studies.base import Study, register
from holdfast_studies.catalogue.mdprop_arms import AS_GOOD, BASELINES, R1_NOISE, named, training
from holdfast_studies.claims import All, Claim, Ordered
from holdfast_studies.drawings import Drawing, Lines
from holdfast_studies.jobs import Arm, Scale

FRACTIONS = (0.25, 0.5, 0.75, 1.0)
DATASETS: dict[Scale, dict[str, str]] = {
    "pocket": {"": "glyphs"},
    "paper": {"": "cub", ", CARS": "cars"},
}
"""What follows the names of arms → dataset."""


@register("M3")
class LittleData(Study):
    """MDProp with half of the images matches standard training with all of them."""

    id = "M3"
    source = "MDProp, Figure 2"
    published = "figure: on CUB and CARS, MDProp with half of the training images reaches standard training with all"

    def arms(self, scale: Scale) -> list[Arm]:
        """Both methods with each share of every class's training images; the largest share first."""
        return named(
            scale,
            {
                _name(method, share, suffix): training(
                    scale, method, {} if share == 1 else {"data.train_fraction": share}, data=name
                )
                for suffix, name in DATASETS[scale].items()
                for share in reversed(FRACTIONS)
                for method in (*BASELINES[scale], "MDProp")
            },
        )

    def claims(self, scale: Scale) -> list[Claim]:
        """The paper's reading of its figure, and that MDProp is the better at every share."""
        return [
            claim
            for suffix, name in DATASETS[scale].items()
            for baseline in BASELINES[scale]
            for claim in _claims(scale, suffix, name, baseline)
        ]

    def columns(self, scale: Scale) -> dict[str, str]:
        """Clean figures."""
        return {"R@1": "R@1", "NMI": "NMI"}

    def drawings(self, scale: Scale) -> list[Drawing]:
        """The paper's figure."""
        methods = (*BASELINES[scale], "MDProp")
        return [
            Lines(
                title=f"R@1 by share of the training images, {name}",
                lines={method: {share: _name(method, share, suffix) for share in FRACTIONS} for method in methods},
                x="share of each class's training images",
            )
            for suffix, name in DATASETS[scale].items()
        ]

    def notes(self, scale: Scale) -> str:
        """What differs from the paper."""
        lines = "Equal epochs: half of the images are half of the updates. All shares test on the same images."
        if scale == "pocket":
            return lines + " A class has 10 images, so a quarter is 2, and a batch of 4 per class shows each twice."
        return lines


def _name(method: str, share: float, suffix: str) -> str:
    return f"{method}{suffix}" if share == 1 else f"{method}, {share:g} of the images{suffix}"


def _claims(scale: Scale, suffix: str, name: str, baseline: str) -> list[Claim]:
    reading = BASELINES[scale][baseline]
    return [
        Ordered(
            text=f"{name}: MDProp with half of the images is within {AS_GOOD:g} points of {baseline} with all",
            reading=reading,
            arms=(_name("MDProp", 0.5, suffix), _name(baseline, 1.0, suffix)),
            noise=R1_NOISE[scale],
            least=-AS_GOOD,
        ),
        All(
            text=f"{name}: MDProp is above {baseline} with every share of the images",
            reading=reading,
            parts=tuple(
                Ordered(
                    text=f"{share:g}",
                    arms=(_name("MDProp", share, suffix), _name(baseline, share, suffix)),
                    noise=R1_NOISE[scale],
                )
                for share in FRACTIONS
            ),
        ),
    ]
