"""How images lie in an embedding: retrieval on any split, the plane, distances of pairs, triplet diagrams."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from torch import Tensor

from holdfast import seeds
from holdfast.attacks.frozen import frozen
from holdfast.data import ClassBatches, ImageStore
from holdfast.errors import HoldfastError, RecipeError
from holdfast.evaluation import choose_split, embed, embed_splits, evaluate
from holdfast.gradients import Diagram, diagram
from holdfast.metrics.geometry import all_pairs
from holdfast.mining import EasyPositiveHardNegative, Triplets
from holdfast.training.recipe import Recipe, load_recipe
from holdfast_studies.probes import ProbeFunction, ProbeResult, Scene, register

KEPT = ("R@1", "R@2", "R@4", "R@5", "R@8", "R@10", "NMI", "NMI+", "pi_ratio")
"""Figures of retrieval that are stored, for fine labels and, behind `coarse/`, for coarse ones."""

WIDEST = 2.0
"""Two unit vectors are no farther apart."""


@register("retrieval")
@dataclasses.dataclass(frozen=True, kw_only=True)
class SplitRetrieval(ProbeFunction):
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

    def __call__(self, scene: Scene) -> ProbeResult:
        """Embed and evaluate."""
        model, _ = scene.shown("retrieval")
        table = scene.images(self.split, self.data)
        if self.limit is not None and self.limit < len(table):
            rng = np.random.default_rng(seeds.derive(scene.seed, "retrieval"))
            table = table.subset(np.sort(rng.permutation(len(table))[: self.limit]))
        found = evaluate(model, table, split=self.split, device=scene.device, seed=scene.seed, factor=self.factor)
        kept = {key: value for key, value in found.values.items() if key.removeprefix("coarse/") in KEPT}
        return ProbeResult(figures={key: None if value is None else float(value) for key, value in kept.items()})


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

    def __call__(self, scene: Scene) -> ProbeResult:
        """Embed and scale."""
        model, _ = scene.shown("plane")
        if model.dim != 2:
            raise HoldfastError("the probe 'plane' needs a model of two dimensions; train it with model.dim: 2")
        table = scene.images(self.split, self.data)
        rows = np.random.default_rng(seeds.derive(scene.seed, "plane")).permutation(len(table))[: self.limit]
        chosen = table.subset(np.sort(rows))
        vectors = embed(model, ImageStore(chosen, model.view, scene.device)).double().numpy()
        centred = vectors - vectors.mean(0)
        length = max(float((centred**2).sum(1).mean() ** 0.5), 1e-12)
        points = [
            [round(float(x), 4), round(float(y), 4), int(label)]
            for (x, y), label in zip(centred / length, chosen.labels, strict=True)
        ]
        return ProbeResult(figures={"spread": length}, series={"points": points})


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

    def __call__(self, scene: Scene) -> ProbeResult:
        """Embed and count."""
        model, table = scene.shown("pair-distances")
        split = choose_split(table, None)
        vectors = embed(model, ImageStore(table.split(split), model.view, scene.device))
        counts = torch.zeros(self.bins, dtype=torch.float64)
        number, total, squares = 0, 0.0, 0.0
        for squared, _ in all_pairs(vectors, torch.zeros(len(vectors), dtype=torch.long)):
            distances = squared.sqrt()
            counts += torch.histc(distances, self.bins, 0.0, WIDEST)
            number += len(squared)
            total += float(distances.sum())
            squares += float(squared.sum())
        mean, width = total / number, WIDEST / self.bins
        density = (counts / (number * width)).tolist()
        return ProbeResult(
            figures={"mean": mean, "deviation": max(0.0, squares / number - mean**2) ** 0.5},
            series={"density": [[(place + 0.5) * width, value] for place, value in enumerate(density)]},
        )


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

    def __call__(self, scene: Scene) -> ProbeResult:
        """The diagrams of training batches, of the images trained on and of the test images."""
        # The test images go by one name, however the dataset calls them.
        diagrams = {
            "train" if split == "train" else "test": diagram(vectors, labels)
            for split, (vectors, labels) in embed_splits(*scene.shown("triplet-diagram"), scene.device).items()
        }
        if self.epochs:
            diagrams["batches"] = self._in_batches(scene)
        figures: dict[str, float | None] = {}
        series: dict[str, list[list[float]]] = {}
        for part, found in diagrams.items():
            figures |= {f"{part}/{key}": value for key, value in self.shares(found).items()}
            drawn = torch.randperm(len(found.s_ap), generator=seeds.generator(scene.seed, "triplet diagram"))
            shown = drawn[: self.points]
            series[part] = torch.stack([found.s_ap[shown], found.s_an[shown]], dim=1).tolist()
        return ProbeResult(figures=figures, series=series)

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
        near, far = found.s_ap.double(), found.s_an.double()
        counts = [torch.histc(values.clamp(-1, 1), self.bins, -1, 1) for values in (near, far)]
        return {
            "corner": 100 * float(((near > self.bound) & (far > self.bound)).double().mean()),
            "edge": 100 * float((near > self.bound).double().mean()),
            "near": float(near.mean()),
            "far": float(far.mean()),
            "overlap": 100 * float(torch.minimum(*counts).sum() / len(near)),
        }


def last_batches(scene: Scene, epochs: int) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
    """Embeddings, labels and image numbers of the batches of the last epochs, as the trained model sees them.

    Rows and views are those that training drew. BatchNorm layers use what they used in training. The weights are the
    final ones, not those that each batch met.
    """
    model, table = scene.shown("a look at training batches")
    if scene.run is None:
        raise HoldfastError("only a training has batches that can be looked at again; give the probe to a training")
    recipe = load_recipe(scene.run)
    store = ImageStore(table.split("train"), model.view, scene.device, recipe.cache)
    labels = torch.tensor(store.table.compacted(recipe.data.plain["labels"]))
    augment = recipe.augment.build().fitted(model.view)
    was_training, policy = model.training, model.batchnorm
    model.batchnorm = recipe.model.batchnorm
    model.train()
    try:
        with torch.no_grad(), frozen(model, "keep"):
            for step, rows in _steps(recipe, labels, epochs):
                generator = seeds.generator(recipe.seed, step, "augment", device=scene.device)
                yield model(augment(store.get(rows), generator)).float().cpu(), labels[rows], rows
    finally:
        model.batchnorm = policy
        model.train(was_training)


def _steps(recipe: Recipe, labels: Tensor, epochs: int) -> Iterator[tuple[int, Tensor]]:
    """The last steps of a training and their rows."""
    batches = ClassBatches(labels, recipe.batch.classes, recipe.batch.per_class, recipe.seed, recipe.mining_groups)
    for epoch in range(max(0, recipe.epochs - epochs), recipe.epochs):
        batches.set_epoch(epoch)
        for position, rows in enumerate(batches):
            yield epoch * len(batches) + position, rows
