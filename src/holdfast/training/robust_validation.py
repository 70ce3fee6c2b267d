"""Choosing a model by how it does under attack on the validation classes."""

from __future__ import annotations

import dataclasses

import torch
from torch import Tensor

from holdfast import seeds
from holdfast.attacks import Budget, Misrank, References, pgd
from holdfast.data import ImageStore
from holdfast.models import Embedder
from holdfast.processes import ALONE, current_processes, use_processes

CHUNK = 128
"""Images per pass."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class RobustValidation:
    """The figure by which a model is chosen in place of R@1: R@1 of attacked queries, the gallery clean.

    Each query is attacked towards the nearest image of another class (goal `misrank`). Cheap on purpose: it compares
    epochs of one run, and an audit says how robust the chosen one is.

    Args:
        budget: of the attack, in any units.
        images: so many queries, evenly spaced over the validation images; all where there are fewer.
    """

    budget: Budget = dataclasses.field(default_factory=lambda: Budget(eps=8 / 255, steps=10))
    images: int = 200

    def __post_init__(self) -> None:
        if self.images < 1:
            raise ValueError(f"robust_validation.images must be 1 or more, got {self.images}")

    def measure(self, model: Embedder, store: ImageStore, vectors: Tensor, labels: Tensor, seed: int) -> float:
        """R@1 under attack, in percent; one process measures for all.

        Args:
            model: what is attacked; it is given back as it was.
            store: the validation images.
            vectors: their clean embeddings.
            labels: their classes.
            seed: of the run, for a random start.
        """
        return float(current_processes().tell(lambda: self._measure(model, store, vectors, labels, seed)))

    def _measure(self, model: Embedder, store: ImageStore, vectors: Tensor, labels: Tensor, seed: int) -> float:
        rows = torch.linspace(0, len(labels) - 1, min(self.images, len(labels))).round().long()
        device = model.mean.device
        references = References(vectors.to(device), labels.to(device), normalize=model.normalize)
        budget, hits = self.budget.in_pixels(model.std), []
        generator = seeds.generator(seed, "robust-validation", device=device)
        with use_processes(ALONE):
            for part in torch.split(rows, CHUNK):
                goal = Misrank().bind(references, part.to(device))
                inputs, unit = store.inputs(part), model.normalize
                attacked = pgd(model, inputs, goal, budget, generator=generator, normalize=unit)
                hits.append(attacked.measures["hit"])
        return 100 * float(torch.cat(hits).nanmean())
