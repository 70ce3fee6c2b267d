"""Free hardness manipulation."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor

from holdfast.attacks.ball import Ball
from holdfast.attacks.frozen import Statistics
from holdfast.errors import RecipeError, TrainingError
from holdfast.mining import Miner
from holdfast.regimes.base import Adversarial, Batch, StepContext, StepResult, register, require_not_negative
from holdfast.regimes.hardness_schedules import Destination
from holdfast.regimes.manipulation import Manipulation, Task
from holdfast.regimes.triplet_layout import hardness

HARDNESS_WEIGHT = 1e-3
"""Weight of the mean hardness in the loss."""


class _Held(NamedTuple):
    """What one replay leaves to the next: images whose gradient the update fills in, and how hard they were."""

    task: Task
    images: Tensor
    adversarial: Tensor


@register("free-hm")
class FreeHardnessManipulation(Manipulation):
    """Hardness manipulation without passes for crafting: updates' own gradients attack the images; m passes per batch.

    L(a', p', n') + κ mean H, κ = 0.001; then x' ← Π(x' + α sign ∂L/∂x') where H < H_D, H = d(a', p') - d(a', n')

    A batch is mined once and learnt m times, an update each, so images change m - 1 times and the last update sees
    the hardest. With a triplet loss each change raises the hardness, as that of `hm`; any other loss takes the images
    with their labels, and its gradient is what changes them. Triplets that are hard enough stay untouched bit for
    bit. Nothing but the destination's memory outlives a batch. Logs are those of `hm`, for the last update.

    Cost: a pass learns, and none only crafts; but it runs the triplets' images, up to three times those of the batch.
    H is that of the pass that learns, with BatchNorm layers as in training, while H_D and which triplets are hard
    enough come from mining, under `statistics`. With `model.batchnorm: train` and `statistics: eval` the two differ a
    little, so a triplet may stop short of H_D or beyond it; with frozen statistics they agree.

    Args:
        source: mines the triplets in the clean batch.
        destination: H_D, as for `hm`.
        replays: m, updates per batch. Fewer epochs in proportion keep the cost of a run.
        eps: ε, in pixel units.
        step: α, the change of each pixel after an update.
        u: the loss at which gradual destinations are weakest; larger is a stronger adversary.
        margin: γ: gradual destinations stay between -γ and 0, and remember the loss with this margin.
        statistics: of BatchNorm while mining: running ones (`eval`), or as in training (`keep`).

    Requirements: unit vectors; a miner that returns triplets; two or more images per class.
    Relations: `hm` takes η passes per update for images that are crafted against the present weights.
    Reference: beyond the papers; HM, Section 3.1 names the idea, after Shafahi et al., NeurIPS 2019.
    """

    advice = (
        "use a softer regime.destination (lga, semihard or a negative number such as -0.1), lower regime.eps or "
        "regime.replays, or start from a trained model (init)"
    )

    def __init__(
        self,
        source: Miner | str = "softhard",
        destination: Destination | Miner | float | str = "lga",
        replays: int = 4,
        eps: float = 8 / 255,
        step: float = 4 / 255,
        u: float = 0.2,
        margin: float = 0.2,
        statistics: Statistics = "eval",
    ) -> None:
        super().__init__(source, destination, u, margin, statistics)
        require_not_negative("regime.eps", eps)
        require_not_negative("regime.step", step)
        if replays < 2:
            raise RecipeError(f"replays must be 2 or more, got {replays}: images change between the updates of a batch")
        self.replays = replays
        self.eps = eps
        self.length = step
        self._held: _Held | None = None

    def arguments(self) -> dict[str, Any]:
        """`step` is the length of a change here, and a method too."""
        return super().arguments() | {"step": self.length}

    def step(self, ctx: StepContext, batch: Batch) -> StepResult:
        """Attack what the last replay left, or lay out a new batch, and learn."""
        task, images = self._begin(ctx, batch) if ctx.replay == 0 else self._attack(ctx, batch)
        images = images.requires_grad_()
        encoded = task.layout.encode(ctx, batch, images)
        reached = hardness(encoded.z, task.layout.flat)
        # A triplet within the margin has no gradient, so nothing would say which way is harder. A little of its
        # hardness does, and teaches what the triplet loss teaches.
        loss = task.layout.loss(ctx, encoded) + HARDNESS_WEIGHT * reached.mean()
        adversarial = reached.detach()
        if ctx.replay == self.replays - 1:
            self.remember(ctx, adversarial)
        else:
            self._held = _Held(task, images, adversarial)
        return StepResult(
            loss=loss,
            encoded=encoded,
            logs=task.logs(adversarial),
            adversarial=Adversarial(encoded, task.layout.rows),
        )

    def _begin(self, ctx: StepContext, batch: Batch) -> tuple[Task, Tensor]:
        """A new batch, still clean."""
        task = self.prepare(ctx, batch)
        return task, task.layout.images(ctx, batch)

    def _attack(self, ctx: StepContext, batch: Batch) -> tuple[Task, Tensor]:
        """The images of the last replay, one step along the gradient that its update left on them."""
        held, self._held = self._held, None
        if held is None or held.images.grad is None:
            raise TrainingError("free-hm attacks images along the gradient of the update before; call backward() first")
        task, images = held.task, held.images.detach()
        ball = Ball(task.layout.images(ctx, batch), self.eps, "linf")
        changed = ball.project(images + self.length * held.images.grad.sign())
        unfinished = ctx.mine((held.adversarial < task.limit).repeat_interleave(3), 3)
        return task, torch.where(unfinished.view(-1, *[1] * (images.ndim - 1)), changed, images)
