"""The step context that training lends to regimes."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from functools import partial
from typing import Any

import torch
from accelerate import Accelerator
from torch import Generator, Tensor

from holdfast import seeds
from holdfast.attacks import BoundGoal, Budget, craft
from holdfast.attacks.frozen import Statistics, frozen
from holdfast.attacks.shard import shard_goal
from holdfast.losses import Criterion, Encoded
from holdfast.mining import Tuples
from holdfast.models import Embedder
from holdfast.models.bank import CLEAN, Through
from holdfast.models.batchnorm import batchnorm_layers
from holdfast.models.compiled import CompiledPasses
from holdfast.processes import ALONE, Blocks, Processes
from holdfast.processes.batchnorm import SharedBatchNorm


class TrainingContext:
    """Embeds, attacks, costs and draws for the step it is set to, and counts its passes through the model.

    With several processes each runs its share of every pass, and the embeddings of all are put together.

    Args:
        model: the embedder.
        criterion: the loss over encoded batches.
        accelerator: knows device and precision.
        seed: of the run.
        compiled: run the passes of training and crafting through `torch.compile`.
        processes: who shares the batches.
    """

    def __init__(
        self,
        model: Embedder,
        criterion: Criterion,
        accelerator: Accelerator,
        seed: int,
        compiled: bool = False,
        processes: Processes = ALONE,
    ) -> None:
        self._processes = processes
        self._shared = processes.several and model.batchnorm == "train" and any(batchnorm_layers(model))
        self._model = model
        # What layers tell each other between processes is no part of a graph.
        self._run = CompiledPasses(model) if compiled and not self._shared else model
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
        other = (self._processes.rank,) if self._processes.rank else ()  # its images must not all drop the same
        torch.manual_seed(seeds.derive(self._seed, step, "layers", *other))

    def mine(self, rows: Tensor, group: int = 1) -> Tensor:
        """This process's share of some rows."""
        return rows[self._processes.shard(len(rows), group)]

    def encode(
        self,
        images: Tensor,
        labels: Tensor,
        distribution: str = CLEAN,
        blocks: Blocks | None = None,
        numbers: Tensor | None = None,
    ) -> Encoded:
        """Embed images in the recipe's precision, to learn from them: one pass forward and back."""
        self.passes += 1
        return self._embed(images, labels, distribution, blocks)._replace(numbers=numbers)

    @torch.no_grad()
    def observe(
        self,
        images: Tensor,
        labels: Tensor,
        distribution: str = CLEAN,
        statistics: Statistics = "eval",
        numbers: Tensor | None = None,
    ) -> Encoded:
        """Embed images to look at them: one pass forward, which leaves no trace."""
        self.looks += 1
        with frozen(self._model, statistics):
            return self._embed(images, labels, distribution, None)._replace(numbers=numbers)

    def _embed(self, images: Tensor, labels: Tensor, distribution: str, blocks: Blocks | None) -> Encoded:
        """Embed this process's images and put them together with those of the others."""
        with self._batchnorm(), self._accelerator.autocast():
            z, pooled = self._run(images, return_pooled=True, distribution=distribution)
        blocks = blocks or ((len(labels), 1),)
        return Encoded(self._processes.gather(z, blocks), self._processes.gather(pooled, blocks), labels)

    def _batchnorm(self) -> AbstractContextManager[Any]:
        """Layers that normalise by the batch see that of all processes."""
        return SharedBatchNorm(self._processes) if self._shared else nullcontext()

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
        goal, shard = shard_goal(bound_goal, len(images), self._processes)
        with self._batchnorm():
            crafted = craft(
                Through(self._model, distribution),
                images,
                goal,
                budget.in_pixels(self._std),
                generator=self.generator(stage),
                statistics=statistics,
                precision="bfloat16" if self._accelerator.mixed_precision == "bf16" else "float32",
                normalize=self._model.normalize,
                checked=False,
                run=partial(self._run, distribution=distribution),
                shard=shard,
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
