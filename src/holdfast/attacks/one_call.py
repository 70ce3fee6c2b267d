"""An attack on any model and images in one call."""

from __future__ import annotations

import dataclasses
from itertools import chain
from pathlib import Path

import torch
from numpy.typing import ArrayLike
from torch import Tensor, nn

from holdfast import console, seeds
from holdfast.attacks.ball import pixels
from holdfast.attacks.base import Goal
from holdfast.attacks.budget import Budget, Method, Norm, Start
from holdfast.attacks.forward import Attacked, Forward, chunks, require_finite
from holdfast.attacks.frozen import frozen
from holdfast.attacks.pgd import pgd
from holdfast.attacks.references import References
from holdfast.configurable import built
from holdfast.errors import DataError, ModelError
from holdfast.models import Embedder, load_model


@dataclasses.dataclass(frozen=True, repr=False)
class AttackResult(Attacked):
    """Adversarial images and what they achieved, beside what the clean images have.

    Args:
        images: in the layout they came in, on their device.
        vectors: their embeddings, one per image.
        loss: of the goal, one value per group.
        measures: what the goal reports, one value per group and name.
        previous: per group, the loss one update before the last.
        clean: the same measures of the clean images.
        goal: what was attacked for.
        budget: how far.
    """

    clean: dict[str, Tensor]
    goal: Goal
    budget: Budget

    def __repr__(self) -> str:
        means = ((name, self.clean[name].nanmean(), value.nanmean()) for name, value in self.measures.items())
        found = ", ".join(f"{name} {before:.3g} → {after:.3g}" for name, before, after in means)
        far = f"{self.budget.norm} eps {self.budget.eps * 255:.3g}/255, {self.budget.steps} steps"
        return f"AttackResult({len(self.images)} images, {self.goal!r}, {far}: {found})"


def gallery(
    model: str | Path | nn.Module, images: Tensor, labels: ArrayLike | Tensor | None = None, *, batch: int = 256
) -> References:
    """The clean gallery that attacked images are compared with, embedded in batches.

    Args:
        model: maps images in [0, 1] to vectors; or what `holdfast.models.load_model` takes.
        images: floats in [0, 1], on any device.
        labels: their classes; may be left out for goals that need none.
        batch: images per pass.
    """
    module, unit = _module(model)
    return References(_embed(module, pixels(images), unit, batch), _labels(labels), normalize=unit)


def attack(
    model: str | Path | nn.Module,
    images: Tensor,
    labels: ArrayLike | Tensor | None = None,
    goal: Goal | str = "gtm",
    eps: float = 8 / 255,
    *,
    steps: int = 10,
    norm: Norm = "linf",
    method: Method = "pgd",
    start: Start = "zero",
    gallery: References | None = None,
    batch: int = 64,
    seed: int = 0,
) -> AttackResult:
    """Attack images in one call: embed the gallery, bind the goal, perturb the images, measure before and after.

    The model is given back as it came. For other step lengths, sweeps over ε or search without gradients, take
    `attacks.pgd`, `attacks.sweep` or `attacks.square`.

    Args:
        model: maps images in [0, 1] to vectors, on any device; or what `holdfast.models.load_model` takes.
        images: floats in [0, 1], on any device; group by group for goals on pairs and triplets.
        labels: their classes; may be left out for goals that need none (`tma`, `shift`).
        goal: a goal, or its name: one of `attacks.names()`.
        eps: ε, the largest change of a pixel, or of an image's euclidean length with `norm="l2"`.
        steps: gradient steps.
        norm: `linf` or `l2`.
        method: `pgd`, `momentum` or `apgd`.
        start: at the image itself, or drawn uniformly around it.
        gallery: what the images are searched in, from `gallery()`; the images themselves when left out, each
            without its own copy.
        batch: images per pass, to bound memory.
        seed: of every draw. The random start also depends on `batch`.
    """
    images, wanted = pixels(images), built(Goal, goal)
    budget = Budget(eps=eps, steps=steps, norm=norm, method=method, start=start)
    module, unit = _module(model)
    device = _device(module, images)
    references = _references(_embed(module, images, unit, batch), _labels(labels), gallery, unit)
    rows = torch.arange(len(images), device=device)
    bound = wanted.bind(references, rows, seeds.generator(seed, "targets"))
    results, clean = [], []
    with console.bar(len(images), unit="image", what="attacking") as bar:
        for part, goal_part in chunks(images, bound, max(1, batch // (bound.group or 1))):
            draws = seeds.generator(seed, "start", part.start)
            here = images[part].to(device)
            results.append(pgd(module, here, goal_part, budget, generator=draws, normalize=unit))
            with torch.no_grad():
                clean.append(goal_part.measure(references.clean(rows[part])))
            bar.update(len(here))
    return AttackResult(
        images=torch.cat([result.images.to(images.device) for result in results]),
        vectors=torch.cat([result.vectors for result in results]),
        loss=torch.cat([result.loss for result in results]),
        measures=_joined([result.measures for result in results]),
        previous=torch.cat([result.previous for result in results]),
        clean=_joined(clean),
        goal=wanted,
        budget=budget,
    )


def _references(own: Tensor, labels: Tensor | None, gallery: References | None, unit: bool) -> References:
    if gallery is None:
        return References(own, labels, normalize=unit)
    if gallery.queries is not None:
        raise DataError("these references have queries of their own; give the gallery alone, as gallery() makes it")
    return gallery.searched_by(own, labels)


def _module(model: str | Path | nn.Module) -> tuple[nn.Module, bool]:
    """A model, and whether its vectors are to have unit length."""
    module = load_model(model) if isinstance(model, (str, Path)) else model
    if not isinstance(module, nn.Module):
        raise ModelError(
            f"an attack needs an nn.Module or the name of a model, got {type(model).__name__}; wrap it in one"
        )
    return module, module.normalize if isinstance(module, Embedder) else True


def _device(module: nn.Module, images: Tensor) -> torch.device:
    return next((tensor.device for tensor in chain(module.parameters(), module.buffers())), images.device)


def _labels(labels: ArrayLike | Tensor | None) -> Tensor | None:
    try:
        return None if labels is None else torch.as_tensor(labels)
    except (TypeError, ValueError) as error:
        raise DataError(f"labels must be integers, one per image: {error}; number the classes first") from error


@torch.no_grad()
def _embed(module: nn.Module, images: Tensor, unit: bool, batch: int) -> Tensor:
    """Clean embeddings, in eval mode."""
    if batch < 1:
        raise DataError(f"batch must be 1 or more images, got {batch}")
    device, forward = _device(module, images), Forward(module, unit)
    with frozen(module):
        starts = range(0, len(images), batch)
        vectors = torch.cat([forward.embed(images[start : start + batch].to(device)) for start in starts])
    require_finite(vectors)
    return vectors


def _joined(measures: list[dict[str, Tensor]]) -> dict[str, Tensor]:
    return {name: torch.cat([part[name] for part in measures]) for name in measures[0]}
