"""What a regime works with during one step; BatchNorm routing, precision and gathering live here and nowhere else.

Where several processes train, pixels are a process's own and everything else is everybody's: each holds the images of
its shard of a batch, and labels, embeddings, tuples, draws and losses are those of the whole batch, alike in all.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial
from typing import Any, TypeAlias, TypeVar

import torch
from accelerate import Accelerator
from torch import Generator, Tensor, nn

from holdfast import seeds
from holdfast.attacks import BoundGoal, Budget, craft
from holdfast.attacks.frozen import Statistics, frozen
from holdfast.attacks.shard import shard_goal
from holdfast.errors import RecipeError
from holdfast.losses import Criterion, Encoded
from holdfast.mining import Tuples
from holdfast.models import Embedder
from holdfast.models.bank import CLEAN, batchnorm_layers
from holdfast.models.compiled import CompiledPasses
from holdfast.models.embedder import Through
from holdfast.processes import Blocks, current_processes
from holdfast.processes.batchnorm import SharedBatchNorm

T = TypeVar("T")

Purpose: TypeAlias = tuple[str, ...]
"""What a generator of a step is for: its stage, and which replay and mining group where there are several."""


class StepContext:
    """Embeds, attacks, computes the loss and draws for the step it is set to, and counts its passes through the model.

    `statistics` says what BatchNorm layers use while nothing is learnt: `eval` the running statistics, `keep` what
    they use in training, which may be those of the batch. Nothing is learnt or remembered either way.

    Args:
        model: the embedder.
        criterion: the loss over encoded batches.
        accelerator: knows device and precision.
        seed: of the run.
        compiled: run the passes of training and crafting through `torch.compile`.
        total: steps of the whole run, for schedules.
    """

    def __init__(
        self,
        model: Embedder,
        criterion: Criterion,
        accelerator: Accelerator,
        seed: int,
        compiled: bool = False,
        total: int | None = None,
    ) -> None:
        self._processes = current_processes()
        self._shared = self._processes.several and model.batchnorm == "train" and any(batchnorm_layers(model))
        self._model = model
        # What layers tell each other between processes is no part of a graph.
        self._run = CompiledPasses(model) if compiled and not self._shared else model
        self._criterion = criterion
        self._accelerator = accelerator
        self._seed = seed
        self._draw_from: Callable[[Purpose], Generator] = self.fresh_generator
        self._std = float(model.std.mean())  # read once: asking a GPU makes it wait
        self._places: dict[str, str] = {}
        self._eps_factor = 1.0
        self._all_tuples = False
        self._kept: list[Any] | None = None
        self._again: Iterator[Any] | None = None
        self._afterwards: list[Callable[[], None]] = []
        self._known_total = total is not None
        self.total = total or 1
        self.progress = torch.ones((), device=accelerator.device)
        """The share of training that lay behind when the step began, 1 where no total is known; on the device, in one
        place, where a captured step finds that of each step."""
        self.step = 0
        self.replay = 0
        """How often this batch has been learnt already, for regimes that replay it."""
        self.group = 0
        """Which part of a batch this is, where mining groups cut it into parts; otherwise 0."""
        self.passes = 0
        self.passed = 0
        """Images of this process in those passes, as often as they went through."""
        self.looks = 0
        self.stopped_early = False
        """Whether an attack of this step reached its goal before its last step."""

    def start(self, step: int) -> None:
        """Enter a step; layers that draw by themselves (dropout) draw from torch's global generator, seeded here."""
        self.step, self.replay, self.group = step, 0, 0
        self.passes = self.passed = self.looks = 0
        self.stopped_early = False
        self._afterwards.clear()
        if self._known_total:
            self.progress.fill_(step / self.total)
        other = (self._processes.rank,) if self._processes.rank else ()  # its images must not all drop the same
        torch.manual_seed(seeds.derive(self._seed, step, "layers", *other))

    def mine(self, rows: Tensor, group: int = 1) -> Tensor:
        """This process's shard of some rows; groups of consecutive rows stay together. All of them if it is alone."""
        return rows[self._processes.shard(len(rows), group)]

    def encode(
        self,
        images: Tensor,
        labels: Tensor,
        distribution: str = CLEAN,
        blocks: Blocks | None = None,
        numbers: Tensor | None = None,
        compiled: bool = True,
    ) -> Encoded:
        """Embed images in the recipe's precision, to learn from them: one pass forward and back.

        Args:
            images: this process's shard.
            labels: of all images, in the order in which they are returned.
            distribution: names the BatchNorm set.
            blocks: how many images there are in all, and how many stay together; single ones when left out.
            numbers: which image of the dataset each shows, as the batch has it, so that miners know copies.
            compiled: False keeps `torch.compile` out, whose passes have no gradients of gradients.
        """
        self.passes += 1
        self.passed += len(images)
        place = self._places.get(distribution, distribution)
        return self._embed(images, labels, place, blocks, compiled)._replace(numbers=numbers)

    def observe(
        self,
        images: Tensor,
        labels: Tensor,
        distribution: str = CLEAN,
        statistics: Statistics = "eval",
        numbers: Tensor | None = None,
    ) -> Encoded:
        """Embed images to look at them: one pass forward, no graph, no running statistics updated."""

        def look() -> Encoded:
            self.looks += 1
            with torch.no_grad(), frozen(self._model, statistics):
                return self._embed(images, labels, distribution, None)._replace(numbers=numbers)

        return self.once(look)

    @torch.no_grad()
    def observe_through(self, other: nn.Module, images: Tensor, count: int) -> Tensor:
        """Embeddings of a batch of so many images by another model that does not learn, in the recipe's precision."""
        self.looks += 1
        with self._accelerator.autocast():
            z: Tensor = other(images)
        return self._processes.gather(z, ((count, 1),))

    def attack(
        self,
        images: Tensor,
        bound_goal: BoundGoal,
        budget: Budget,
        distribution: str = CLEAN,
        statistics: Statistics = "eval",
        stage: str = "start",
        pace: Tensor | None = None,
    ) -> Tensor:
        """Adversarial images, in the recipe's precision and in `budget.steps` passes at most.

        Args:
            images: this process's shard of the images that the goal is bound to.
            bound_goal: what the attack minimises.
            budget: in any units.
            distribution: names the BatchNorm set.
            statistics: what BatchNorm layers use.
            stage: names the generator of a random start.
            pace: a factor on the length of every step, a scalar on the device.
        """
        return self.once(lambda: self._attack(images, bound_goal, budget, distribution, statistics, stage, pace))

    def _attack(
        self,
        images: Tensor,
        bound_goal: BoundGoal,
        budget: Budget,
        distribution: str,
        statistics: Statistics,
        stage: str,
        pace: Tensor | None,
    ) -> Tensor:
        goal, shard = shard_goal(bound_goal, len(images))
        distribution = self._places.get(distribution, distribution)
        with self._batchnorm():
            crafted = craft(
                Through(self._model, distribution),
                images,
                goal,
                budget.in_pixels(self._std).scaled(self._eps_factor),
                generator=self.generator(stage),
                statistics=statistics,
                precision="bfloat16" if self._accelerator.mixed_precision == "bf16" else "float32",
                normalize=self._model.normalize,
                checked=False,
                run=None if self._run is self._model else partial(self._run, distribution=distribution),
                shard=shard,
                pace=pace,
            )
        self.passes += crafted.passes
        self.passed += crafted.passes * len(images)
        self.stopped_early = self.stopped_early or crafted.passes < budget.steps
        return crafted.images

    def criterion(self, encoded: Encoded, tuples: Tuples | None = None, stage: str = "loss") -> Tensor:
        """The recipe's loss on embeddings, in float32; `stage` names the generator of its miner."""
        loss: Tensor = self._criterion(encoded, tuples, self.generator(stage), self.step)
        return loss

    @property
    def on_triplets(self) -> bool:
        """Whether the recipe's loss learns from triplets; another is given the images with their labels."""
        return self._criterion.loss.on_triplets and not self._all_tuples

    @contextmanager
    def all_tuples(self) -> Iterator[None]:
        """In the block, a loss on triplets is given images with their labels as any other, and mines by itself."""
        before, self._all_tuples = self._all_tuples, True
        try:
            yield
        finally:
            self._all_tuples = before

    @contextmanager
    def through(self, place: str) -> Iterator[None]:
        """In the block, what is crafted and learnt through the clean BatchNorm set goes through another."""
        before, self._places = self._places, {CLEAN: place}
        try:
            yield
        finally:
            self._places = before

    @contextmanager
    def scaled_budgets(self, factor: float) -> Iterator[None]:
        """In the block, every length of every budget is multiplied."""
        before, self._eps_factor = self._eps_factor, self._eps_factor * factor
        try:
            yield
        finally:
            self._eps_factor = before

    @property
    def repeated(self) -> bool:
        """Whether this is a step taken again, on what was observed and crafted when it was first taken."""
        return self._again is not None

    def repeat(self, inner: Callable[[], T], between: Callable[[T], None]) -> T:
        """Take a step twice, with the same observations and adversarial images; the second counts.

        Args:
            inner: the step.
            between: uses what came of the first. Running statistics are those from before it, afterwards.
        """
        if self._kept is not None or self._again is not None:
            raise RecipeError("a step can be repeated by one extra only; leave one of them out")
        learnt = [buffer for part in self._model.modules() if part.training for buffer in part.buffers(recurse=False)]
        before = [buffer.clone() for buffer in learnt]
        kept: list[Any] = []
        self._kept = kept
        try:
            between(inner())
            with torch.no_grad():
                for buffer, value in zip(learnt, before, strict=True):
                    buffer.copy_(value)
            self._kept, self._again = None, iter(kept)
            return inner()
        finally:
            self._kept = self._again = None

    def once(self, make: Callable[[], T]) -> T:
        """What is made, or was made when this step was first taken: for what must not change in a repeated one.

        Within `make` nothing else is observed, crafted or made once.
        """
        if self._again is not None:
            made: T = next(self._again)
            return made
        made = make()
        if self._kept is not None:
            self._kept.append(made)
        return made

    @property
    def weights(self) -> list[nn.Parameter]:
        """The parameters of the model that learn."""
        return [parameter for parameter in self._model.parameters() if parameter.requires_grad]

    def afterwards(self, undo: Callable[[], None]) -> None:
        """Call something once the gradients of this step are there."""
        self._afterwards.append(undo)

    def finish(self) -> None:
        """Gradients are there: call what waited for them."""
        while self._afterwards:
            self._afterwards.pop()()

    def generator(self, stage: str) -> Generator:
        """A generator on the training device, seeded from (seed, step, stage)."""
        # A replayed or second part of a batch must not repeat the draws of the first; the first keeps its plain name.
        part = (f"{self.replay}/{self.group}",) if self.replay or self.group else ()
        return self._draw_from((stage, *part))

    def fresh_generator(self, purpose: Purpose) -> Generator:
        """A generator of its own for a purpose of this step."""
        return seeds.generator(self._seed, self.step, *purpose, device=self._accelerator.device)

    def seed_for(self, purpose: Purpose) -> int:
        """What seeds the generator of a purpose in this step."""
        return seeds.derive(self._seed, self.step, *purpose)

    @contextmanager
    def drawing_from(self, source: Callable[[Purpose], Generator]) -> Iterator[None]:
        """In the block, generators come from a source, which is asked in the order in which a step needs them."""
        self._draw_from = source
        try:
            yield
        finally:
            self._draw_from = self.fresh_generator

    def _embed(
        self, images: Tensor, labels: Tensor, distribution: str, blocks: Blocks | None, compiled: bool = True
    ) -> Encoded:
        """Embed this process's images and put them together with those of the others."""
        run = self._run if compiled else self._model
        with self._batchnorm(), self._accelerator.autocast():
            z, pooled = run(images, return_pooled=True, distribution=distribution)
        blocks = blocks or ((len(labels), 1),)
        return Encoded(self._processes.gather(z, blocks), self._processes.gather(pooled, blocks), labels)

    def _batchnorm(self) -> AbstractContextManager[Any]:
        """Layers that normalise by the batch see that of all processes."""
        return SharedBatchNorm() if self._shared else nullcontext()
