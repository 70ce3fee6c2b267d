"""The step context that training lends to regimes."""

from __future__ import annotations

from functools import partial

import torch
from accelerate import Accelerator
from torch import Generator, Tensor

from holdfast import seeds
from holdfast.attacks import BoundGoal, Budget, craft
from holdfast.attacks.frozen import Statistics, frozen
from holdfast.losses.criterion import Criterion, Encoded
from holdfast.mining.tuples import Tuples
from holdfast.models import Embedder
from holdfast.models.bank import CLEAN, Through
from holdfast.models.compiled import CompiledPasses


class TrainingContext:
    """Embeds, attacks, costs and draws for the step it is set to, and counts its passes through the model.

    Args:
        model: the embedder.
        criterion: the loss over encoded batches.
        accelerator: knows device and precision.
        seed: of the run.
        compiled: run the passes of training and crafting through `torch.compile`.
    """

    def __init__(
        self, model: Embedder, criterion: Criterion, accelerator: Accelerator, seed: int, compiled: bool = False
    ) -> None:
        self._model = model
        self._run = CompiledPasses(model) if compiled else model
        self._criterion = criterion
        self._accelerator = accelerator
        self._seed = seed
        self._std = float(model.std.mean())  # read once: asking a GPU makes it wait
        self.step = 0
        self.replay = 0
        self.group = 0
        self.passes = 0
        self.looks = 0

    def start(self, step: int) -> None:
        """Enter a step; layers that draw by themselves (dropout) draw from torch's global generator, seeded here."""
        self.step, self.replay, self.group = step, 0, 0
        self.passes = self.looks = 0
        torch.manual_seed(seeds.derive(self._seed, step, "layers"))

    def encode(self, images: Tensor, labels: Tensor, distribution: str = CLEAN) -> Encoded:
        """Embed images in the recipe's precision, to learn from them: one pass forward and back."""
        self.passes += 1
        with self._accelerator.autocast():
            z, pooled = self._run(images, return_pooled=True, distribution=distribution)
        return Encoded(z, pooled, labels)

    @torch.no_grad()
    def observe(
        self, images: Tensor, labels: Tensor, distribution: str = CLEAN, statistics: Statistics = "eval"
    ) -> Encoded:
        """Embed images to look at them: one pass forward, which leaves no trace."""
        self.looks += 1
        with frozen(self._model, statistics), self._accelerator.autocast():
            z, pooled = self._run(images, return_pooled=True, distribution=distribution)
        return Encoded(z, pooled, labels)

    def attack(
        self,
        images: Tensor,
        bound_goal: BoundGoal,
        budget: Budget,
        distribution: str = CLEAN,
        statistics: Statistics = "eval",
        stage: str = "start",
    ) -> Tensor:
        """Images moved towards a goal, in the recipe's precision and in `budget.steps` passes at most."""
        crafted = craft(
            Through(self._model, distribution),
            images,
            bound_goal,
            budget.in_pixels(self._std),
            generator=self.generator(stage),
            statistics=statistics,
            precision="bfloat16" if self._accelerator.mixed_precision == "bf16" else "float32",
            normalize=self._model.normalize,
            checked=False,
            run=partial(self._run, distribution=distribution),
        )
        self.passes += crafted.passes
        return crafted.images

    def criterion(self, encoded: Encoded, tuples: Tuples | None = None, stage: str = "loss") -> Tensor:
        """The recipe's loss in float32."""
        cost: Tensor = self._criterion(encoded, tuples, self.generator(stage), self.step)
        return cost

    @property
    def on_triplets(self) -> bool:
        """Whether the recipe's loss learns from triplets."""
        return self._criterion.loss.on_triplets

    def generator(self, stage: str) -> Generator:
        """A generator on the training device, seeded from (seed, step, stage)."""
        # A replayed or second part of a batch must not repeat the draws of the first; the first keeps its plain name.
        part = (f"{self.replay}/{self.group}",) if self.replay or self.group else ()
        return seeds.generator(self._seed, self.step, stage, *part, device=self._accelerator.device)
