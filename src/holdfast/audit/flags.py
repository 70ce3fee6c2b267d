"""When a score cannot be trusted: signs, explanations and what to do.

Each check looks for one fault. A sound model raises none.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any, Literal

import torch
from torch import Generator, Tensor, nn
from torch.nn import functional as F

from holdfast import attacks
from holdfast.attacks import Attacked, Budget, pgd, square
from holdfast.audit.plan import Passes, Progress
from holdfast.audit.sampling import balanced_rows
from holdfast.audit.subject import HURRY, Subject
from holdfast.errors import plural
from holdfast.metrics import geometry, retrieval
from holdfast.models import Embedder
from holdfast.models.preprocessing import IMAGENET_MEAN, IMAGENET_STD
from holdfast.sphere import precise

Level = Literal["note", "warning", "error"]

ADVICE = {
    "training-mode": "call model.eval() where the model is used, or the audited model is not the one in use",
    "randomised": "random defences often only hide the gradient; trust the averaged figures, not single passes",
    "batch-dependent": "a layer uses batch statistics in eval mode: track running statistics, or call eval() on it",
    "non-unit-outputs": "figures hold for search by angle; normalise the vectors in use too, or search by angle",
    "input-range": "wrap the model so that it takes images in [0, 1] and normalises them once, inside",
    "collapse": "a high ERS means nothing for a collapsed embedding, look at R@1; train again with a softer regime",
    "no-gradients": "read every figure as an upper bound of robustness; audit the original model where you can",
    "zero-gradients": "attacks by gradient cannot move them; look for rounding, saturation or detach() in the model",
    "search-beats-gradient": "the gradient is masked; robustness figures from gradient attacks are too high",
    "large-eps-fails": "no model can hold when the image may be replaced; the attack is blind: distrust every figure",
    "first-look": "run the audit without --quick before you rely on it: full attacks may find the model weaker",
    "more-steps-do-not-help": "the loss surface misleads the gradient, as one-step training makes it; trust `thorough`",
}
"""Name of each flag → what to do about it."""
MILDER: dict[str, Level] = {
    "non-unit-outputs": "note",
    "first-look": "note",
    "training-mode": "warning",
    "randomised": "warning",
    "no-gradients": "warning",
}
"""Flags that are no error."""

IMAGES = 40
HUGE = 0.5
STEPS = 30
QUERIES = 200
TRIED, TRIED_STEPS = 4, 8
"""Images and steps that tell, before images are chosen by the clock, whether the heavier checks will be needed."""
MARGIN = 0.1
"""Fraction of the probed images by which one attack must beat another before it counts as a sign."""


@dataclasses.dataclass(frozen=True)
class Flag:
    """A reason to doubt.

    Args:
        name: short and stable; one of `ADVICE`.
        why: what was seen.
    """

    name: str
    why: str

    def plain(self) -> dict[str, Any]:
        """As JSON has it; level `note` is something to know, `warning` a score to doubt, `error` one to discard."""
        level = MILDER.get(self.name, "error")
        return {"name": self.name, "level": level, "why": self.why, "advice": ADVICE[self.name]}


def training_mode(model: nn.Module) -> list[Flag]:
    """A model handed over in training mode, with layers that behave differently there."""
    moody = (nn.modules.batchnorm._BatchNorm, nn.modules.dropout._DropoutNd)
    layers = [m for m in model.modules() if isinstance(m, moody) and m.training]
    if not layers:
        return []
    told = f"{plural(len(layers), 'layer')} such as {type(layers[0]).__name__}"
    return [Flag("training-mode", f"the model came in training mode ({told}); it was audited in eval mode")]


@torch.no_grad()
def randomised(model: nn.Module, images: Tensor) -> list[Flag]:
    """Two passes over the same images that differ."""
    change = float((_unit(model, images) - _unit(model, images)).norm(dim=1).max())
    why = f"the same image gets different vectors (up to {change:.2g} apart); attacks averaged 8 passes"
    return [] if change < 1e-5 else [Flag("randomised", why)]


@torch.no_grad()
def batch_dependent(model: nn.Module, images: Tensor) -> list[Flag]:
    """An image whose vector depends on the rest of the batch, although the model is in eval mode."""
    together = _unit(model, images)
    # In pairs, not alone: a layer that wants batch statistics refuses a single image.
    apart = torch.cat([_unit(model, images[start : start + 2]) for start in range(0, len(images) - 1, 2)])
    change = float((together[: len(apart)] - apart).norm(dim=1).max())
    why = f"an image's vector changes with the other images of its batch (by up to {change:.2g})"
    return [] if change < 1e-2 else [Flag("batch-dependent", why)]


@torch.no_grad()
def non_unit(model: nn.Module, images: Tensor) -> list[Flag]:
    """A wrapped model whose own vectors are not of unit length."""
    if not isinstance(model, Embedder) or not isinstance(model.head, nn.Identity):
        return []
    lengths = model.features(images).norm(dim=1)
    low, high = float(lengths.min()), float(lengths.max())
    why = f"the model's vectors have lengths from {low:.3g} to {high:.3g}; the audit scaled them to 1"
    return [] if low > 0.99 and high < 1.01 else [Flag("non-unit-outputs", why)]


def inputs(model: nn.Module, images: Tensor, labels: Tensor) -> list[Flag]:
    """A model that errs half as often when its input is scaled otherwise: it expects other pixels than [0, 1]."""
    mean, std = (torch.tensor(v, device=images.device).view(1, 3, 1, 1) for v in (IMAGENET_MEAN, IMAGENET_STD))
    readings = {
        "pixels from 0 to 255": images * 255,
        "pixels already normalised by mean and deviation": (images - mean) / std,
        "pixels in [0, 1] that it does not normalise a second time": images * std + mean,
    }
    plain = _recall(model, images, labels)
    if plain is None:
        return []
    scores = {name: _recall(model, other, labels) or 0.0 for name, other in readings.items()}
    best = max(scores, key=lambda name: scores[name])
    if scores[best] < plain + 10 or 100 - scores[best] > (100 - plain) / 2:
        return []
    why = f"R@1 on {plural(len(images), 'image')} rises from {plain:.0f} to {scores[best]:.0f} with {best}"
    return [Flag("input-range", why)]


def collapse(vectors: Tensor, labels: Tensor, seed: int) -> tuple[list[Flag], dict[str, Any]]:
    """An embedding in which everything is near everything; ERS rewards it. Also returns the geometry behind it."""
    found = geometry(vectors, labels, seed=seed)
    shown = {key: found[key] for key in ("distance_all", "effective_rank", "collapsed")}
    apart, rank = shown["distance_all"], shown["effective_rank"]
    if not shown["collapsed"]:
        return [], shown
    return [Flag("collapse", f"random images are {apart:.3g} apart and {rank:.1f} dimensions are in use")], shown


def _effort(subject: Subject) -> tuple[int, int]:
    """Steps of a gradient attack and queries of a random search."""
    return (max(1, STEPS // HURRY), max(1, QUERIES // HURRY)) if subject.quick else (STEPS, QUERIES)


def falls_at_once(subject: Subject, eps: float) -> bool:
    """Whether a few steps break each of a few queries, so that most checks for masked gradients will be left out."""
    if not subject.differentiable:
        return False
    rows = subject.limited(min(TRIED, len(subject.rows))).rows
    margin = attacks.build("misrank").bind(subject.references, rows)
    tried = Budget(eps=eps, steps=TRIED_STEPS, method="apgd")
    return not bool((pgd(subject.model, subject.images(rows), margin, tried).measures["hit"] > 0).any())


def masking_passes(subject: Subject, falls: bool = False) -> dict[str, Passes]:
    """What each check for masked gradients takes at most, the heaviest last.

    Args:
        subject: the model.
        falls: the first check will break nearly everything, and no other follow.
    """
    if not subject.differentiable:
        return {}
    (steps, queries), images = _effort(subject), min(IMAGES, len(subject.rows))
    each = {
        "gradient": Passes(forward=2, back=1 + steps),
        "one step": Passes(forward=1, back=1),
        "large eps": Passes(forward=2, back=steps),
        "random search": Passes(forward=queries + 2),
    }
    return {name: passes * images for name, passes in each.items() if name == "gradient" or not falls}


def masking(subject: Subject, eps: float, progress: Progress) -> list[Flag]:
    """Signs of masked gradients: a model looks robust, but only because attacks by gradient cannot see.

    Four signs, on a few images: random search does better than the gradient; even a huge perturbation leaves queries
    unbroken; many steps do no better than one; the gradient is zero. Where the gradient breaks nearly every query,
    nothing is masked that the other attacks could show, and they are left out.

    Args:
        subject: the model, with the gallery it searches.
        eps: of the audit, in pixels.
        progress: counts the passes of each check.
    """
    planned, (steps, queries) = masking_passes(subject), _effort(subject)
    if not planned:
        return []
    rows = subject.rows[balanced_rows(subject.labels[subject.rows].cpu(), IMAGES, subject.seed).to(subject.rows.device)]
    images = subject.images(rows)
    margin = attacks.build("misrank").bind(subject.references, rows)
    clean = margin.measure(subject.references.clean(rows))["hit"] > 0

    def broken(found: Attacked) -> float:
        """Fraction of the queries that were right and now are wrong."""
        return 1 - float((found.measures["hit"][clean] > 0).double().mean())

    def check(name: str, attack: Callable[[], Attacked]) -> float:
        with progress.doing(f"checking for masked gradients: {name}", planned.pop(name)):
            return broken(attack())

    def by_steps(budget: Budget, generator: Generator | None = None) -> Callable[[], Attacked]:
        return lambda: pgd(subject.model, images, margin, budget, generator=generator)

    found, percent = _zero_gradients(subject, images), "{:.0f} %".format
    strong = Budget(eps=eps, steps=steps, method="apgd", start="uniform")
    by_gradient = check("gradient", by_steps(strong, subject.generator("probe"))) if bool(clean.any()) else 1.0
    if by_gradient >= 1 - MARGIN:
        progress.skip(sum(planned.values(), Passes()))
        return found
    one_step, generator = Budget.fgsm(eps), subject.generator("probe-search")
    by_one_step = check("one step", by_steps(one_step))
    # From the image itself: random noise of this size would break queries without any help from the gradient.
    by_force = check("large eps", by_steps(Budget(eps=HUGE, steps=steps, method="apgd")))
    by_search = check(
        "random search",
        lambda: square(subject.model, images, margin, one_step, queries=queries, generator=generator),
    )
    if by_search > by_gradient + MARGIN:
        why = f"breaks {percent(100 * by_search)} of the queries, the gradient only {percent(100 * by_gradient)}"
        found.append(Flag("search-beats-gradient", f"random search {why}"))
    if by_force < 1 - MARGIN:
        why = f"even with changes of {HUGE:g} per pixel, only {percent(100 * by_force)} of the queries break"
        found.append(Flag("large-eps-fails", why))
    if by_one_step > by_gradient + MARGIN:
        why = f"breaks {percent(100 * by_one_step)} of the queries, {steps} steps {percent(100 * by_gradient)}"
        found.append(Flag("more-steps-do-not-help", f"one step {why}"))
    return found


def _zero_gradients(subject: Subject, images: Tensor) -> list[Flag]:
    """Images whose embedding does not react to any pixel."""
    adversarial = images.detach().clone().requires_grad_()
    vectors = subject.model(adversarial)
    # Towards a random direction: a drawn image may be the own clean copy, where no model has a gradient.
    aim = torch.randn(vectors.shape, generator=subject.generator("probe-targets")).to(vectors)
    loss = F.cosine_similarity(vectors, aim, dim=1).sum()
    if not loss.requires_grad:
        fraction = 1.0
    else:
        (gradient,) = torch.autograd.grad(loss, adversarial, allow_unused=True)
        fraction = 1.0 if gradient is None else float((gradient.flatten(1).abs().amax(1) == 0).double().mean())
    if fraction <= MARGIN:
        return []
    return [Flag("zero-gradients", f"{100 * fraction:.0f} % of the images have a gradient of exactly zero")]


def _unit(model: nn.Module, images: Tensor) -> Tensor:
    return F.normalize(precise(model(images)), dim=1)


@torch.no_grad()
def _recall(model: nn.Module, images: Tensor, labels: Tensor) -> float | None:
    vectors = _unit(model, images)
    if not bool(vectors.isfinite().all()):
        return None
    return retrieval(vectors, labels, ks=(1,))["R@1"]
