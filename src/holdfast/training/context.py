"""The step context that training lends to regimes."""

from __future__ import annotations

import torch
from accelerate import Accelerator
from torch import Generator, Tensor, nn

from holdfast import seeds
from holdfast.losses.criterion import Criterion, Encoded
from holdfast.mining.tuples import Tuples


class TrainingContext:
    """Embeds, costs and draws for the step it is set to.

    Args:
        model: the embedder, as prepared by accelerate.
        criterion: the loss over encoded batches.
        accelerator: knows device and precision.
        seed: of the run.
    """

    def __init__(self, model: nn.Module, criterion: Criterion, accelerator: Accelerator, seed: int) -> None:
        self._model = model
        self._criterion = criterion
        self._accelerator = accelerator
        self._seed = seed
        self.step = 0

    def start(self, step: int) -> None:
        """Enter a step; layers that draw by themselves (dropout) draw from torch's global generator, seeded here."""
        self.step = step
        torch.manual_seed(seeds.derive(self._seed, step, "layers"))

    def encode(self, images: Tensor, labels: Tensor, distribution: str = "clean") -> Encoded:
        """Embed images in the recipe's precision."""
        if distribution != "clean":
            raise ValueError(f"this embedder has one BatchNorm set, 'clean', and none for '{distribution}'")
        with self._accelerator.autocast():
            z, pooled = self._model(images, return_pooled=True)
        return Encoded(z, pooled, labels)

    def criterion(self, encoded: Encoded, tuples: Tuples | None = None) -> Tensor:
        """The recipe's loss in float32."""
        cost: Tensor = self._criterion(encoded, tuples, self.generator("loss"))
        return cost

    def generator(self, stage: str) -> Generator:
        """A generator on the training device, seeded from (seed, step, stage)."""
        return seeds.generator(self._seed, self.step, stage, device=self._accelerator.device)
