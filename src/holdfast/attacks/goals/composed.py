"""Goals made of goals."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence

import torch
from torch import Generator, Tensor

from holdfast.attacks.base import BoundGoal, Goal, register
from holdfast.attacks.references import References
from holdfast.configurable import built
from holdfast.errors import RecipeError


class _Composed(BoundGoal):
    """Several goals for the same groups, each with a weight."""

    def __init__(self, goals: Sequence[tuple[str, BoundGoal]], weights: Sequence[float]) -> None:
        self.goals = dict(goals)
        self.weights = list(weights)
        sizes = {goal.group for goal in self.goals.values()}
        if len(sizes) != 1:
            raise RecipeError("goals can only be combined when they attack groups of the same size")
        (self.group,) = sizes
        self.stationary = any(goal.stationary for goal in self.goals.values())

    @abstractmethod
    def combine(self, losses: Tensor) -> Tensor:
        """Weighted losses of shape (goals, groups) to one per group."""

    def loss(self, z: Tensor) -> Tensor:
        """The members' losses, combined."""
        return self.combine(self._weighted([goal.loss(z) for goal in self.goals.values()]))

    def measure(self, z: Tensor) -> dict[str, Tensor]:
        """Every member's measures under `member/measure`; members of a recipe are numbered from 1."""
        return {f"{name}/{key}": value for name, goal in self.goals.items() for key, value in goal.measure(z).items()}

    def images(self) -> int | None:
        """As many as its members, which were bound together."""
        return next((count for goal in self.goals.values() if (count := goal.images()) is not None), None)

    def take(self, groups: slice | Tensor) -> _Composed:
        """Every member's part."""
        return type(self)([(name, goal.take(groups)) for name, goal in self.goals.items()], self.weights)

    def _weighted(self, losses: list[Tensor]) -> Tensor:
        weights = torch.tensor(self.weights, dtype=losses[0].dtype, device=losses[0].device)
        return torch.stack(losses) * weights[:, None]

    def _floors(self) -> list[float]:
        return [weight * goal.floor for weight, goal in zip(self.weights, self.goals.values(), strict=True)]


class BoundSum(_Composed):
    """The weighted sum of several goals."""

    def __init__(self, goals: Sequence[tuple[str, BoundGoal]], weights: Sequence[float]) -> None:
        super().__init__(goals, weights)
        self.floor = sum(self._floors())

    def combine(self, losses: Tensor) -> Tensor:
        """Their sum."""
        return losses.sum(0)


class _BoundWorst(_Composed):
    def __init__(self, goals: Sequence[tuple[str, BoundGoal]], weights: Sequence[float]) -> None:
        super().__init__(goals, weights)
        self.floor = min(self._floors())

    def combine(self, losses: Tensor) -> Tensor:
        """The lowest."""
        return losses.min(0).values


class _Several(Goal):
    """Binds every member to the same images."""

    def __init__(self, goals: list[Goal | str], weights: list[float] | None = None) -> None:
        self.goals = [built(Goal, goal) for goal in goals]
        self.weights = [1.0] * len(goals) if weights is None else weights
        if not goals or len(self.weights) != len(goals):
            raise RecipeError(f"give one or more goals and a weight for each, got {len(goals)} and {len(self.weights)}")
        if any(weight <= 0 for weight in self.weights):
            raise RecipeError("the weights of goals must be above 0; leave a goal out instead")
        self.group_size = max(goal.group_size for goal in self.goals)
        self.least_classes = max(goal.least_classes for goal in self.goals)

    def _bound(
        self, references: References, rows: Tensor, generator: Generator | None
    ) -> tuple[list[tuple[str, BoundGoal]], list[float]]:
        bound = [goal.bind(references, rows, generator) for goal in self.goals]
        return [(str(position), goal) for position, goal in enumerate(bound, start=1)], self.weights


@register("sum")
class Sum(_Several):
    """Pursue several goals at once.

    L = Σ_k w_k L_k

    Args:
        goals: the members; all must attack groups of the same size.
        weights: one positive number each; 1 when left out.

    Relations: `worst-of` is content with one of them.
    """

    def bind(self, references: References, rows: Tensor, generator: Generator | None = None) -> BoundGoal:
        """Bind every member."""
        return BoundSum(*self._bound(references, rows, generator))


@register("worst-of")
class WorstOf(_Several):
    """Pursue, for each group, whichever of several goals is nearest to being reached.

    L = min_k w_k L_k

    Args:
        goals: the members; all must attack groups of the same size.
        weights: one positive number each, to make losses comparable; 1 when left out.

    Relations: `attacks.worst` keeps the worst of attacks that were run separately, by any criterion.
    """

    def bind(self, references: References, rows: Tensor, generator: Generator | None = None) -> BoundGoal:
        """Bind every member."""
        return _BoundWorst(*self._bound(references, rows, generator))
