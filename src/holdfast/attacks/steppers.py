"""How an iterate moves: plain steps, momentum, or steps that adapt themselves.

A stepper sees the loss and gradient at the current images and returns the next ones. All state is per group.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from holdfast.attacks.ball import Ball, along, per_image
from holdfast.attacks.budget import Budget


class Plain:
    """Steps of one length against the gradient; the last iterate counts.

    Args:
        ball: what is allowed.
        budget: has the length of a step.
        group: images per group.
        pace: a factor on that length, which stays on its device.
    """

    def __init__(self, ball: Ball, budget: Budget, group: int, pace: Tensor | None = None) -> None:
        self.ball = ball
        self.length = budget.step_size if pace is None else budget.step_size * pace
        self.group = group

    def step(self, x: Tensor, gradient: Tensor, loss: Tensor) -> Tensor:
        """The next images."""
        return self.ball.step(x, gradient, self.length)

    def choose(self, x: Tensor, loss: Callable[[Tensor], Tensor]) -> Tensor:
        """What the attack returns, given its last iterate and a way to compute its loss."""
        return x

    def images(self, per_group: Tensor) -> Tensor:
        """A value per group, shaped to act on images."""
        return per_image(per_group.repeat_interleave(self.group), self.ball.images)


class Momentum(Plain):
    """Steps along `g ← g + ∇/mean|∇|`, which carries an attack over small bumps (Dong et al., CVPR 2018)."""

    def __init__(self, ball: Ball, budget: Budget, group: int, pace: Tensor | None = None) -> None:
        super().__init__(ball, budget, group, pace)
        self.direction = torch.zeros_like(ball.images)

    def step(self, x: Tensor, gradient: Tensor, loss: Tensor) -> Tensor:
        """The next images."""
        size = gradient.flatten(1).abs().mean(1).clamp_min(1e-30)
        self.direction = self.direction + gradient / per_image(size, gradient)
        return super().step(x, self.direction, loss)


class Apgd(Plain):
    """Steps that halve on a plateau, and the best iterate (Croce and Hein, ICML 2020).

    A step is averaged with the previous change (¾ to ¼). At checkpoints, which become denser, a group whose loss fell
    in fewer than ¾ of the steps, or whose step and best loss are those of the last checkpoint, halves its step and
    goes on from its best iterate.
    """

    def __init__(self, ball: Ball, budget: Budget, group: int, pace: Tensor | None = None) -> None:
        super().__init__(ball, budget, group, pace)
        self.window = max(round(0.22 * budget.steps), 1)
        self.shrink = max(round(0.03 * budget.steps), 1)
        self.smallest = max(round(0.06 * budget.steps), 1)
        self.since = 0
        self.iterate = 0
        self.before = ball.images

    def step(self, x: Tensor, gradient: Tensor, loss: Tensor) -> Tensor:
        """The next images."""
        if self.iterate == 0:
            self._begin(x, gradient, loss)
        else:
            self._record(x, gradient, loss)
            if self.since == self.window:
                x, gradient = self._checkpoint(x, gradient)
        target = self.ball.project(x - self.images(self.steps) * along(gradient, self.ball.norm))
        if self.iterate > 0:
            target = self.ball.project(x + 0.75 * (target - x) + 0.25 * (x - self.before))
        self.before = x
        self.iterate += 1
        return target

    def choose(self, x: Tensor, loss: Callable[[Tensor], Tensor]) -> Tensor:
        """The best iterate, the last one included."""
        if self.iterate == 0:
            return x
        return torch.where(self.images(loss(x) < self.best_loss), x, self.best)

    def _begin(self, x: Tensor, gradient: Tensor, loss: Tensor) -> None:
        self.steps = torch.ones_like(loss) * self.length
        self.best, self.best_gradient, self.best_loss = x, gradient, loss
        self.last_loss = loss
        self.fell = torch.zeros_like(loss)
        self.halved = torch.zeros_like(loss, dtype=torch.bool)
        self.best_at_checkpoint = loss

    def _record(self, x: Tensor, gradient: Tensor, loss: Tensor) -> None:
        better = loss < self.best_loss
        self.best = torch.where(self.images(better), x, self.best)
        self.best_gradient = torch.where(self.images(better), gradient, self.best_gradient)
        self.best_loss = torch.where(better, loss, self.best_loss)
        self.fell = self.fell + (loss < self.last_loss)
        self.last_loss = loss
        self.since += 1

    def _checkpoint(self, x: Tensor, gradient: Tensor) -> tuple[Tensor, Tensor]:
        stuck = ~self.halved & (self.best_loss >= self.best_at_checkpoint)
        halve = (self.fell < 0.75 * self.window) | stuck
        self.steps = torch.where(halve, self.steps / 2, self.steps)
        self.last_loss = torch.where(halve, self.best_loss, self.last_loss)
        self.halved, self.best_at_checkpoint = halve, self.best_loss
        self.fell = torch.zeros_like(self.fell)
        self.window = max(self.window - self.shrink, self.smallest)
        self.since = 0
        chosen = self.images(halve)
        return torch.where(chosen, self.best, x), torch.where(chosen, self.best_gradient, gradient)


STEPPERS: dict[str, type[Plain]] = {"pgd": Plain, "momentum": Momentum, "apgd": Apgd}
