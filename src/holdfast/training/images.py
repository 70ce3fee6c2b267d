"""The images of a batch, made where they are needed."""

from __future__ import annotations

import torch
from torch import Generator, Tensor

from holdfast.data import ImageStore
from holdfast.data.augment import Augment
from holdfast.data.ragged import RaggedImages


class BatchImages:
    """Makes the augmented image of any position in a batch.

    Which view is seen was drawn for the whole batch, so every process that makes an image makes the same one, and no
    pixel travels between processes.

    Args:
        rows: rows of the store, one per position.
        store: the images.
        augment: makes the views.
        generator: draws them.
    """

    def __init__(self, rows: Tensor, store: ImageStore, augment: Augment, generator: Generator) -> None:
        self._rows, self._store, self._augment = rows.to(store.device), store, augment
        self._draws = augment.draw(len(rows), generator)

    def __call__(self, positions: Tensor) -> Tensor:
        """The images at some positions."""
        if self._store.cache != "none":
            return self._view(self._store.get(self._rows[positions]), positions)
        once, back = torch.unique(positions, return_inverse=True)  # triplets share images, and decoding takes time
        return self._view(self._store.get(self._rows[once]), once)[back]

    def _view(self, images: RaggedImages, positions: Tensor) -> Tensor:
        return self._augment.view(images, tuple(drawn[positions.to(drawn.device)] for drawn in self._draws))
