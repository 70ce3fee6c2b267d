"""What attacks return."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import torch
from torch import Tensor

from holdfast.attacks.ball import per_image


@dataclasses.dataclass(frozen=True)
class Crafted:
    """Perturbed images alone.

    Args:
        images: in the layout they came in.
        previous: per group, the loss one update before the last (the published ES:D is taken there).
        passes: how often the model was run forward and back; fewer than the budget's steps if every group was done.
    """

    images: Tensor
    previous: Tensor
    passes: int


@dataclasses.dataclass(frozen=True)
class Attacked:
    """Perturbed images and what they achieved.

    Args:
        images: in the layout they came in, inside ball and [0, 1].
        vectors: their embeddings, one per image.
        loss: of the goal, one value per group.
        measures: what the goal reports, one value per group and name.
        previous: per group, the loss one update before the last.
    """

    images: Tensor
    vectors: Tensor
    loss: Tensor
    measures: dict[str, Tensor]
    previous: Tensor


def worst(results: Sequence[Attacked], by: Sequence[Tensor] | None = None) -> Attacked:
    """For each group the result that hurts most: restarts, several goals, several attacks.

    Args:
        results: attacks on the same images; several goals must agree on the names of their measures.
        by: one value per group for each result, lowest kept, such as a hit; the losses when left out, which compares
            restarts of one goal but not different goals. NaN is never kept; where all are, the first result is.
    """
    values = torch.stack([result.loss for result in results] if by is None else list(by))
    chosen = values.masked_fill(values.isnan(), torch.inf).argmin(0)
    first = results[0]
    per_group = chosen.repeat_interleave(len(first.images) // len(chosen))
    return Attacked(
        images=_pick([r.images for r in results], per_group),
        vectors=_pick([r.vectors for r in results], per_group),
        loss=_pick([r.loss for r in results], chosen),
        measures={name: _pick([r.measures[name] for r in results], chosen) for name in first.measures},
        previous=_pick([r.previous for r in results], chosen),
    )


def _pick(options: list[Tensor], chosen: Tensor) -> Tensor:
    """Row i of option chosen[i]."""
    picked = options[0].clone()
    for index, option in enumerate(options[1:], start=1):
        picked = torch.where(per_image(chosen == index, option), option, picked)
    return picked
