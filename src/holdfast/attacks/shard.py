"""An attack whose images are sharded over several processes."""

from __future__ import annotations

import dataclasses

from torch import Tensor

from holdfast.attacks.base import BoundGoal
from holdfast.processes import current_processes


@dataclasses.dataclass(frozen=True)
class Shard:
    """Which images of an attack a process has: `rows` among `total` in all."""

    rows: slice
    total: int


class GatheredGoal(BoundGoal):
    """A goal over the whole batch as one group, whose embeddings are with several processes.

    Each computes the loss of all embeddings and takes the gradient of its own.
    """

    group = None

    def __init__(self, goal: BoundGoal, total: int) -> None:
        self._goal, self._blocks = goal, ((total, 1),)
        self.floor, self.stationary = goal.floor, goal.stationary

    def loss(self, z: Tensor) -> Tensor:
        """Of the whole batch."""
        return self._goal.loss(current_processes().gather(z, self._blocks))

    def measure(self, z: Tensor) -> dict[str, Tensor]:
        """Of the whole batch."""
        return self._goal.measure(current_processes().gather(z, self._blocks))


def shard_goal(goal: BoundGoal, count: int) -> tuple[BoundGoal, Shard | None]:
    """This process's part of a goal, for the `count` images that it has; the goal itself if it is alone."""
    processes = current_processes()
    if not processes.several:
        return goal, None
    bound = goal.images()
    total = processes.total(count) if bound is None else bound
    shard = Shard(processes.shard(total, goal.group or 1), total)
    if goal.group is None:
        return GatheredGoal(goal, total), shard
    return goal.take(slice(shard.rows.start // goal.group, shard.rows.stop // goal.group)), shard
