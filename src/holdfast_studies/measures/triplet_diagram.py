"""Where the triplets of nearest positive and nearest negative lie after training."""

from __future__ import annotations

import dataclasses

import torch

from holdfast.errors import HoldfastError
from holdfast.evaluation import embed_splits
from holdfast.gradients import Diagram, diagram
from holdfast.mining import Triplets
from holdfast.mining.hardest import EasyPositiveHardNegative
from holdfast.seeds import generator
from holdfast_studies.measures.replayed import last_batches
from holdfast_studies.probes import Found, ProbeFunction, Scene, register


@register("triplet-diagram")
@dataclasses.dataclass(frozen=True, kw_only=True)
class TripletDiagram(ProbeFunction):
    """Each image as a point: similarity to its nearest positive, similarity to its nearest negative.

    Besides the splits there are the batches of the last epochs of training, where each image is a triplet with its
    nearest positive and nearest negative in the batch.

    Figures of each: `corner`, the share of images in percent with both similarities above a bound; `edge`, the
    share whose nearest positive alone is; `near` and `far`, the mean similarities; `overlap`, the share that the
    distributions of the two have in common.

    Args:
        bound: where the top right corner begins; the paper draws it and gives no number.
        points: of each split kept for the figure, drawn at random.
        bins: of the distributions, between -1 and 1.
        epochs: of training whose batches are looked at, counted from the end; none leaves them out.
    """

    bound: float = 0.8
    points: int = 800
    bins: int = 50
    epochs: int = 0

    def __call__(self, scene: Scene) -> Found:
        """The diagrams of training batches, of the images trained on and of the test images."""
        if scene.model is None or scene.table is None:
            raise HoldfastError(
                "the probe triplet-diagram looks at a trained model; give it as a measure of a training"
            )
        # The test images go by one name, however the dataset calls them.
        diagrams = {
            "train" if split == "train" else "test": diagram(vectors, labels)
            for split, (vectors, labels) in embed_splits(scene.model, scene.table, scene.device).items()
        }
        if self.epochs:
            diagrams["batches"] = self._in_batches(scene)
        figures: dict[str, float | None] = {}
        series: dict[str, list[list[float]]] = {}
        for part, found in diagrams.items():
            figures |= {f"{part}/{key}": value for key, value in self.shares(found).items()}
            shown = torch.randperm(len(found.near), generator=generator(scene.seed, "triplet diagram"))[: self.points]
            series[part] = torch.stack([found.near[shown], found.far[shown]], dim=1).tolist()
        return Found(figures=figures, series=series)

    def _in_batches(self, scene: Scene) -> Diagram:
        """The triplets of nearest positive and nearest negative within each batch."""
        near, far = [], []
        for z, labels, rows in last_batches(scene, self.epochs):
            triplets = EasyPositiveHardNegative()(z, labels, images=rows)
            assert isinstance(triplets, Triplets)
            anchor = z[triplets.anchor]
            near.append((anchor * z[triplets.positive]).sum(1))
            far.append((anchor * z[triplets.negative]).sum(1))
        return Diagram(torch.cat(near), torch.cat(far))

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
