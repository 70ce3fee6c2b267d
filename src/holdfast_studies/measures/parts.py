"""How pairs of vectors lie on the sphere: figures and a histogram of distances."""

from __future__ import annotations

import dataclasses

import torch

from holdfast.data import ImageStore
from holdfast.errors import RecipeError
from holdfast.evaluation import choose_split, embed
from holdfast.metrics.pairs import all_pairs
from holdfast_studies.probes import Found, ProbeFunction, Scene, register

WIDEST = 2.0
"""Two unit vectors are no farther apart."""


@register("pair-distances")
@dataclasses.dataclass(frozen=True, kw_only=True)
class PairDistances(ProbeFunction):
    """Distances of all pairs of embedded test images.

    Figures: `mean` and `deviation`. Series: `density`, of which the whole is one.

    Args:
        bins: of the histogram, from 0 to 2.

    Requirements: a model with unit vectors, and images.
    Reference: ADML, Figures 4 and 5.
    """

    bins: int = 50

    def __post_init__(self) -> None:
        if self.bins < 1:
            raise RecipeError(f"bins must be 1 or more, got {self.bins}")

    def __call__(self, scene: Scene) -> Found:
        """Embed and count."""
        if scene.model is None or scene.table is None:
            raise RecipeError("pair-distances measures a model on images; give the computation data and a backbone")
        split = choose_split(scene.table, None)
        store = ImageStore(scene.table if split == "all" else scene.table.split(split), scene.model.view, scene.device)
        vectors = embed(scene.model, store)
        counts = torch.zeros(self.bins, dtype=torch.float64)
        number, total, squares = 0, 0.0, 0.0
        for squared, _ in all_pairs(vectors, torch.zeros(len(vectors), dtype=torch.long)):
            distances = squared.sqrt()
            counts += torch.histc(distances, self.bins, 0.0, WIDEST)
            number, total, squares = (
                number + len(squared),
                total + float(distances.sum()),
                squares + float(squared.sum()),
            )
        mean, width = total / number, WIDEST / self.bins
        density = (counts / (number * width)).tolist()
        return Found(
            figures={"mean": mean, "deviation": max(0.0, squares / number - mean**2) ** 0.5},
            series={"density": [[(place + 0.5) * width, value] for place, value in enumerate(density)]},
        )
