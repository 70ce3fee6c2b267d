"""The batches of the end of a training once more, as its trained model sees them."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from holdfast import seeds
from holdfast.attacks.frozen import frozen
from holdfast.data import ClassBatches, ImageStore
from holdfast.errors import HoldfastError
from holdfast.training.recipe import Recipe, load_recipe
from holdfast_studies.probes import Scene


def last_batches(scene: Scene, epochs: int) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
    """Embeddings, labels and image numbers of the batches of the last epochs.

    Rows and views are those that training drew. BatchNorm layers use what they used in training. The weights are the
    final ones, not those that each batch met.
    """
    if scene.model is None or scene.table is None or scene.run is None:
        raise HoldfastError("only a training has batches that can be looked at again; give the probe to a training")
    recipe, model = load_recipe(scene.run), scene.model
    store = ImageStore(scene.table.split("train"), model.view, scene.device, recipe.cache)
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
