"""The optimiser loop: any model, any goal, any budget."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, TypedDict

import torch
from torch import Generator, Tensor, nn

from holdfast.attacks.ball import Ball, pixels
from holdfast.attacks.base import BoundGoal
from holdfast.attacks.budget import Budget
from holdfast.attacks.forward import Attacked, Crafted, Forward, Lagged, Precision, chunks, group_size, judge, worst
from holdfast.attacks.frozen import Statistics, frozen
from holdfast.attacks.shard import Shard
from holdfast.attacks.steppers import STEPPERS
from holdfast.errors import ModelError, RecipeError
from holdfast.processes import ALONE, Processes, current_processes

if TYPE_CHECKING:
    from typing_extensions import Unpack


class Options(TypedDict, total=False):
    """What `craft`, `pgd` and `sweep` share; `craft` explains."""

    generator: Generator | None
    chunk: int | None
    statistics: Statistics
    precision: Precision
    normalize: bool
    run: Callable[[Tensor], Tensor] | None


def craft(
    module: nn.Module,
    images: Tensor,
    bound_goal: BoundGoal,
    budget: Budget,
    *,
    generator: Generator | None = None,
    chunk: int | None = None,
    statistics: Statistics = "eval",
    precision: Precision = "float32",
    normalize: bool = True,
    checked: bool = True,
    run: Callable[[Tensor], Tensor] | None = None,
    shard: Shard | None = None,
    pace: Tensor | None = None,
) -> Crafted:
    """Perturb images towards a goal, in `budget.steps` passes forward and back and not one more (`apgd`: one forward).

    Weights are frozen meanwhile, gradients are taken with respect to pixels alone, and the model is given back in the
    modes, gradient flags and statistics it had, also after an exception.

    Args:
        module: maps images in [0, 1] to vectors; pixel normalisation belongs inside.
        images: floats in [0, 1], group by group: with groups of three, images 0-2 are the first triplet.
        bound_goal: a goal, bound to these images.
        budget: in pixel units.
        generator: draws the random start; torch's global one when left out. The draw does not depend on `chunk`.
        chunk: groups per pass, to bound memory; all at once when left out.
        statistics: `eval` puts every submodule in eval mode. `keep` leaves modes alone, for regimes that craft under
            batch statistics; groups then see each other through BatchNorm.
        precision: `bfloat16` runs the network under autocast; perturbations and losses stay in float32.
        normalize: scale the model's vectors to unit length, as `References` does.
        checked: look whether images are in [0, 1], gradients finite and the result inside its ball. Training, whose
            images are and whose loss is watched, leaves it out: each check synchronises the GPU.
        run: another way to call the same module, such as its compiled form, for the passes that craft.
        shard: which images of an attack these are, where several processes have their part of it; `shard_goal` says.
        pace: a factor on the length of every step, a scalar on the device that no host reads.
    """
    images = pixels(images) if checked else images.detach()
    forward = Forward(module, normalize, precision, run)
    with frozen(module, statistics):
        return _craft(forward, images, bound_goal, budget, generator, chunk, checked, shard, pace)


def pgd(
    module: nn.Module,
    images: Tensor,
    bound_goal: BoundGoal,
    budget: Budget,
    *,
    generator: Generator | None = None,
    chunk: int | None = None,
    statistics: Statistics = "eval",
    precision: Precision = "float32",
    normalize: bool = True,
    run: Callable[[Tensor], Tensor] | None = None,
) -> Attacked:
    """Perturb images towards a goal and say what that achieved; arguments as for `craft`.

    Costs one pass forward more than `craft`. The final pass is in float32 whatever the precision of crafting.
    """
    images = pixels(images)
    with frozen(module, statistics):
        crafted = _craft(Forward(module, normalize, precision, run), images, bound_goal, budget, generator, chunk)
        return judge(Forward(module, normalize), crafted.images, bound_goal, chunk, crafted.previous)


def sweep(
    module: nn.Module,
    images: Tensor,
    bound_goal: BoundGoal,
    budget: Budget,
    eps: Sequence[float],
    **options: Unpack[Options],
) -> list[Attacked]:
    """The same attack at several ε, one result each, in the order given.

    Steps and start keep their proportion to ε. With a method that keeps the best iterate (`apgd`), a larger ε also
    keeps what a smaller one found, so that the loss never grows with ε.
    """
    found: dict[int, Attacked] = {}
    before: Attacked | None = None
    for index in sorted(range(len(eps)), key=lambda i: eps[i]):
        result = pgd(module, images, bound_goal, budget.with_eps(eps[index]), **options)
        if budget.method == "apgd" and before is not None:
            result = worst([result, before])
        found[index] = before = result
    return [found[index] for index in range(len(eps))]


def require_pixels(budget: Budget) -> None:
    """Refuse a budget whose numbers would mean something else."""
    if budget.units != "pixel":
        raise RecipeError("this budget is in normalized units; convert it with budget.in_pixels(model.std)")


def _craft(
    forward: Forward,
    images: Tensor,
    goal: BoundGoal,
    budget: Budget,
    generator: Generator | None,
    chunk: int | None,
    checked: bool = True,
    shard: Shard | None = None,
    pace: Tensor | None = None,
) -> Crafted:
    require_pixels(budget)
    ball = Ball(images, budget.eps, budget.norm, compiled=forward.run is not None)
    start = ball.start(budget.start_eps, generator, shard)
    processes = current_processes() if shard else ALONE
    made, previous, slopes, passed = [], [], [], 0
    for rows, part in chunks(images, goal, chunk):
        x, loss, slope, taken = _descend(forward, ball.part(rows), start[rows], part, budget, checked, processes, pace)
        made.append(x)
        previous.append(loss)
        slopes.append(slope)
        passed = max(passed, taken)
    if not checked:
        return Crafted(ball.finish(torch.cat(made), checked=False), torch.cat(previous), passed)
    # A sign of NaN is no step at all: a broken model would pass for a robust one.
    if not bool(torch.stack(slopes).isfinite().all()):
        raise ModelError("embeddings or their gradients contain NaN or inf; check the model's weights")
    return Crafted(ball.finish(torch.cat(made)), torch.cat(previous), passed)


def _descend(
    forward: Forward,
    ball: Ball,
    x: Tensor,
    goal: BoundGoal,
    budget: Budget,
    checked: bool,
    processes: Processes,
    pace: Tensor | None,
) -> tuple[Tensor, Tensor, Tensor, int]:
    """Follow the gradient of one chunk; processes that share an attack stop together.

    Returns images, the loss one update before, the sum of all gradients if they are checked, and how many passes it
    took.
    """
    stepper = STEPPERS[budget.method](ball, budget, group_size(x, goal), pace)
    bounded = goal.floor > -torch.inf
    slope = x.new_zeros(())
    done = Lagged()
    for step in range(budget.steps):
        loss, gradient = forward.gradient(x, goal, first=step == 0)
        if checked:
            slope = slope + gradient.sum() + loss.sum()
        if bounded and done.ask(processes.all_of((loss <= goal.floor).all())):
            break
        following = stepper.step(x, gradient, loss)
        # A group at its floor has nothing to gain: it must not drift on what its stepper remembers.
        x = torch.where(stepper.images(loss > goal.floor), following, x) if bounded else following
    return stepper.choose(x, lambda points: forward.loss(points, goal)), loss, slope, step + 1
