"""Adversarial images made one by one towards a goal: what AT, EST, ADML and MDProp learn from."""

from __future__ import annotations

import torch
from torch import Tensor

from holdfast.attacks import Budget, Goal, References
from holdfast.attacks.frozen import Statistics
from holdfast.configurable import built
from holdfast.errors import RecipeError
from holdfast.losses import Encoded
from holdfast.models.bank import CLEAN
from holdfast.regimes.base import Batch, StepContext
from holdfast.sphere import distance


def image_goal(goal: Goal | str) -> Goal:
    """A goal, given as one or by name; refused if it needs pairs or triplets, which a batch does not consist of."""
    found = built(Goal, goal)
    if found.group_size > 1:
        raise RecipeError(
            f"goal {type(found).__name__} attacks groups of {found.group_size} images, and this regime single images; "
            f"use regime: {'act' if found.group_size == 2 else 'hm'}, or a goal such as single-target"
        )
    return found


def adversarial_images(
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
    """The images of a batch, each attacked towards a goal among the clean embeddings of that batch.

    Args:
        ctx: of the step; the goal draws from its stage `targets`, a random start from `start`.
        batch: what is attacked.
        clean: the same batch, observed.
        goal: of the attack.
        budget: of the attack.
        statistics: what BatchNorm layers use meanwhile.
        distribution: gives the stages names of their own.
        place: the BatchNorm set it goes through.
    """
    references = References(clean.z, clean.labels, normalize=False)  # as the model gives them, like the attacked ones
    rows = torch.arange(len(clean.labels), device=batch.images.device)
    suffix = "" if distribution is None else f"-{distribution}"
    bound = goal.bind(references, rows, ctx.generator(f"targets{suffix}"))
    return ctx.attack(batch.images, bound, budget, place, statistics, stage=f"start{suffix}")


def shift(adversarial: Encoded, clean: Tensor) -> Tensor:
    """How far embeddings are from their clean ones, on average."""
    return distance(adversarial.z.detach(), clean.detach()).mean()
