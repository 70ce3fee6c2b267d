"""Where an embedding with two dimensions puts images."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from holdfast.data import ImageStore
from holdfast.errors import HoldfastError
from holdfast.evaluation import embed
from holdfast.seeds import derive
from holdfast_studies.probes import Found, ProbeFunction, Scene, register


@register("plane")
@dataclasses.dataclass(frozen=True, kw_only=True)
class Plane(ProbeFunction):
    """Points `[x, y, fine label]` of some images, moved and scaled to mean 0 and mean square length 1.

    Args:
        split: of the images.
        limit: how many, drawn at random.
        data: fields of the dataset to set otherwise than the run did.
    """

    split: str = "train"
    limit: int = 600
    data: dict[str, Any] = dataclasses.field(default_factory=dict)

    def __call__(self, scene: Scene) -> Found:
        """Embed and scale."""
        if scene.model is None or scene.table is None or scene.model.dim != 2:
            raise HoldfastError("the probe 'plane' needs a model of two dimensions; train it with model.dim: 2")
        table = scene.images(self.split, self.data)
        rows = np.random.default_rng(derive(scene.seed, "plane")).permutation(len(table))[: self.limit]
        chosen = table.subset(np.sort(rows))
        vectors = embed(scene.model, ImageStore(chosen, scene.model.view, scene.device)).double().numpy()
        centred = vectors - vectors.mean(0)
        length = max(float((centred**2).sum(1).mean() ** 0.5), 1e-12)
        points = [
            [round(float(x), 4), round(float(y), 4), int(label)]
            for (x, y), label in zip(centred / length, chosen.labels, strict=True)
        ]
        return Found(figures={"spread": length}, series={"points": points})
