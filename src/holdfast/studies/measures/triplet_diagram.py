"""Where the triplets of nearest positive and nearest negative lie after training."""

from __future__ import annotations

import dataclasses

import torch

from holdfast.errors import HoldfastError
from holdfast.evaluation import embed_splits
from holdfast.gradients.explanation import Diagram, diagram
from holdfast.seeds import generator
from holdfast.studies.probes import Found, ProbeFunction, Scene, register


@register("triplet-diagram")
@dataclasses.dataclass(frozen=True, kw_only=True)
class TripletDiagram(ProbeFunction):
    """Each image as a point: similarity to its nearest positive, similarity to its nearest negative.

    Figures, per split: `corner`, the share of images in percent with both similarities above a bound; `edge`, the
    share whose nearest positive alone is; `near` and `far`, the mean similarities; `overlap`, the share that the
    distributions of the two have in common.

    Args:
        bound: where the top right corner begins; the paper draws it and gives no number.
        points: of each split kept for the figure, drawn at random.
        bins: of the distributions, between -1 and 1.
    """

    bound: float = 0.8
    points: int = 800
    bins: int = 50

    def __call__(self, scene: Scene) -> Found:
        """The diagrams of the images trained on and of the test images."""
        if scene.model is None or scene.table is None:
            raise HoldfastError(
                "the probe triplet-diagram looks at a trained model; give it as a measure of a training"
            )
        figures: dict[str, float | None] = {}
        series: dict[str, list[list[float]]] = {}
        for split, (vectors, labels) in embed_splits(scene.model, scene.table, scene.device).items():
            found = diagram(vectors, labels)
            # The test images go by one name, however the dataset calls them.
            part = "train" if split == "train" else "test"
            figures |= {f"{part}/{key}": value for key, value in self.shares(found).items()}
            shown = torch.randperm(len(found.near), generator=generator(scene.seed, "triplet diagram"))[: self.points]
            series[part] = torch.stack([found.near[shown], found.far[shown]], dim=1).tolist()
        return Found(figures=figures, series=series)

    def shares(self, found: Diagram) -> dict[str, float]:
        """The figures of one diagram."""
        near, far = found.near.double(), found.far.double()
        counts = [torch.histc(values.clamp(-1, 1), self.bins, -1, 1) for values in (near, far)]
        return {
            "corner": 100 * float(((near > self.bound) & (far > self.bound)).double().mean()),
            "edge": 100 * float((near > self.bound).double().mean()),
            "near": float(near.mean()),
            "far": float(far.mean()),
            "overlap": 100 * float(torch.minimum(*counts).sum() / len(near)),
        }
