"""An attack whose images are shared out among several processes."""

from __future__ import annotations

import dataclasses

from torch import Tensor

from holdfast.attacks.base import BoundGoal
from holdfast.processes import ALONE, Processes


@dataclasses.dataclass(frozen=True)
class Share:
    """Which images of an attack a process has.

    Args:
        rows: its images among all.
        total: how many there are in all.
        processes: who has the others.
    """

    rows: slice
    total: int
    processes: Processes = ALONE


class Joint(BoundGoal):
    """A goal over the whole batch as one group, whose embeddings are with several processes.

    Each computes the loss of all embeddings and takes the gradient of its own.

    Args:
        goal: over the whole batch.
        share: of this process.
    """

    group = None

    def __init__(self, goal: BoundGoal, share: Share) -> None:
        self._goal, self._share = goal, share
        self.floor, self.stationary = goal.floor, goal.stationary

    def loss(self, z: Tensor) -> Tensor:
        """Of the whole batch."""
        return self._goal.loss(self._everyone(z))

    def measure(self, z: Tensor) -> dict[str, Tensor]:
        """Of the whole batch."""
        return self._goal.measure(self._everyone(z))

    def _everyone(self, z: Tensor) -> Tensor:
        return self._share.processes.gather(z, ((self._share.total, 1),))


def share_out(goal: BoundGoal, count: int, processes: Processes) -> tuple[BoundGoal, Share | None]:
    """This process's part of a goal, for the `count` images that it has; the goal itself if it is alone."""
    if not processes.several:
        return goal, None
    bound = goal.images()
    total = processes.total(count) if bound is None else bound
    if goal.group is None:
        share = Share(processes.share(total), total, processes)
        return Joint(goal, share), share
    share = Share(processes.share(total, goal.group), total, processes)
    groups = slice(share.rows.start // goal.group, share.rows.stop // goal.group)
    return goal.take(groups), share
