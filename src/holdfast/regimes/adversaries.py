"""A batch whose images are moved one by one towards a goal: what AT, EST, ADML and MDProp learn from."""

from __future__ import annotations

import torch
from torch import Tensor

from holdfast.attacks import Budget, Goal, References
from holdfast.attacks.frozen import Statistics
from holdfast.attacks.goals.composed import Sum, WorstOf
from holdfast.attacks.goals.targets import MultiTarget
from holdfast.attacks.goals.tuples import Collapse, Hardness
from holdfast.errors import RecipeError
from holdfast.losses import Encoded
from holdfast.models.bank import CLEAN
from holdfast.regimes.base import Batch, StepContext
from holdfast.sphere import distance


def refuse_groups(goal: Goal) -> None:
    """Refuse a goal that moves pairs or triplets, which a batch does not consist of."""
    if isinstance(goal, (Sum, WorstOf)):
        for member in goal.goals:
            refuse_groups(member)
    for kind, moves, regime in ((Collapse, "pairs", "act"), (Hardness, "triplets", "hm")):
        if isinstance(goal, kind):
            raise RecipeError(
                f"goal {kind.__name__.lower()} moves {moves}, and this regime moves images one by one; "
                f"use regime: {regime}, or a goal such as single-target"
            )


def least_classes(goal: Goal) -> int:
    """How many classes a batch must have for a goal: with `multi-target`, one more than there are targets."""
    if isinstance(goal, (Sum, WorstOf)):
        return max(least_classes(member) for member in goal.goals)
    return goal.targets + 1 if isinstance(goal, MultiTarget) else 2


def adversaries(
    ctx: StepContext,
    batch: Batch,
    clean: Encoded,
    goal: Goal,
    budget: Budget,
    statistics: Statistics,
    *,
    distribution: str | None = None,
    place: str = CLEAN,
) -> Tensor:
    """The images of a batch, each moved towards a goal among the clean embeddings of that batch.

    Args:
        ctx: of the step; the goal draws from its stage `targets`, a random start from `start`.
        batch: what is moved.
        clean: the same batch, observed.
        goal: what each image is moved to.
        budget: how far.
        statistics: what BatchNorm layers use meanwhile.
        distribution: gives the stages names of their own.
        place: the BatchNorm set they are moved through.
    """
    references = References(clean.z, clean.labels, normalize=False)  # as the model gives them, like the moved ones
    rows = torch.arange(len(clean.labels), device=batch.images.device)
    suffix = "" if distribution is None else f"-{distribution}"
    bound = goal.bind(references, rows, ctx.generator(f"targets{suffix}"))
    return ctx.attack(batch.images, bound, budget, place, statistics, stage=f"start{suffix}")


def shift(moved: Encoded, clean: Tensor) -> Tensor:
    """How far embeddings are from their clean ones, on average."""
    return distance(moved.z.detach(), clean.detach()).mean()
