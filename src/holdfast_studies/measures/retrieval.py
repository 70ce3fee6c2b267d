"""Retrieval and clustering on any split, by both label sets."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from holdfast.errors import HoldfastError
from holdfast.evaluation import evaluate
from holdfast.seeds import derive
from holdfast_studies.probes import Found, ProbeFunction, Scene, register

KEPT = ("R@1", "R@2", "R@4", "R@5", "R@8", "R@10", "NMI", "NMI+", "pi_ratio")
"""Figures that are stored, for fine labels and, behind `coarse/`, for coarse ones."""


@register("retrieval")
@dataclasses.dataclass(frozen=True, kw_only=True)
class Retrieval(ProbeFunction):
    """How well the images of a split find each other.

    Args:
        split: `train` asks for what the model has seen.
        limit: images, drawn at random; None for all.
        factor: clusters per class of NMI+.
        data: fields of the dataset to set otherwise than the run did.
    """

    split: str = "train"
    limit: int | None = None
    factor: int = 10
    data: dict[str, Any] = dataclasses.field(default_factory=dict)

    def __call__(self, scene: Scene) -> Found:
        """Embed and evaluate."""
        if scene.model is None or scene.table is None:
            raise HoldfastError("the probe 'retrieval' needs a model and images; give it to a training")
        table = scene.images(self.split, self.data)
        if self.limit is not None and self.limit < len(table):
            rng = np.random.default_rng(derive(scene.seed, "retrieval"))
            table = table.subset(np.sort(rng.permutation(len(table))[: self.limit]))
        device, seed = scene.device, scene.seed
        values = evaluate(scene.model, table, split=self.split, device=device, seed=seed, factor=self.factor).values
        kept = [key for key in values if key.removeprefix("coarse/") in KEPT]
        return Found(figures={key: None if values[key] is None else float(values[key]) for key in kept})
