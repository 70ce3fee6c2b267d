"""When a score cannot be trusted: signs, explanations and what to do.

Each check looks for one fault. A sound model raises none. Masked gradients have a file of their own, `masking.py`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from holdfast.audit.ers import UPWARDS
from holdfast.errors import described, plural
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
    "masked-before": "the input is changed so that gradients miss the network; attack the network without that change",
    "masked-inside": "the network hides its gradient; attack it with straight-through gradients, or without the cause",
    "masked-behind": "vectors are changed so that gradients vanish; attack the vectors of the last layer",
    "rough-surface": "the gradient is that of small bumps; average it over noise, and distrust attacks that do not",
    "gradient-path": "attacks see another function than the one in use; let forward compute the same with gradients",
    "few-checked": "attack more images before you rely on it: a masked gradient would not be seen here",
    "false-gradient": "attacks follow a gradient that is not the model's; trust attacks by search alone",
    "search-beats-gradient": "the gradient is masked, for no cause that was found; figures by gradient are too high",
    "large-eps-fails": "no model can hold when the image may be replaced; the attack is blind: distrust every figure",
    "first-look": "run the audit without --quick before you rely on it: full attacks may find the model weaker",
    "attack-backfires": "its steps overshoot on this model, so ERS reads too high; trust robust R@1, which adapts them",
    "unchecked": "audit the model with its checks before you rely on it: a masked gradient would not be seen here",
    "more-steps-do-not-help": "the loss surface misleads the gradient, as one-step training makes it; trust `thorough`",
}
"""Name of each flag → what to do about it."""
MILDER: dict[str, Level] = {
    "non-unit-outputs": "note",
    "first-look": "note",
    "unchecked": "note",
    "few-checked": "note",
    "training-mode": "warning",
    "randomised": "warning",
    "no-gradients": "warning",
    "attack-backfires": "warning",
}
"""Flags that are no error."""


BACKFIRES = 0.1
"""Fraction of gallery images that an attack may leave farther from its aim; with sound models it leaves none there."""
ROUNDED = 0.01
"""Part of its place by which an image has to be farther: in a large gallery rounding alone moves one by a few."""

OFTEN = (4, 6)
"""Images that are embedded again and again to see whether their vectors stay the same, and how many times twice."""


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
    """Passes over the same images that differ; a few of them are asked often, for models that draw among few ways."""
    asked = [images, *[images[: OFTEN[0]]] * OFTEN[1]]
    change = max(float((_unit(model, each) - _unit(model, each)).norm(dim=1).max()) for each in asked)
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


def gradients(model: nn.Module, images: Tensor) -> list[Flag]:
    """A model whose pixels get no gradient, or whose backward pass breaks off."""
    pixels = images.detach().clone().requires_grad_()
    try:
        with torch.enable_grad():
            vectors = model(pixels)
            found = torch.autograd.grad(vectors.sum(), pixels, allow_unused=True)[0] if vectors.requires_grad else None
        why = "no gradient reaches its pixels" if found is None else ""
    except (MemoryError, torch.OutOfMemoryError):
        raise
    except Exception as error:  # numpy, a custom operation: each raises what it likes
        why = f"its backward pass breaks off ({described(error)})"
    return [Flag("no-gradients", f"{why}, so random search attacked it")] if why else []


def gradient_path(model: nn.Module, images: Tensor) -> list[Flag]:
    """A model that computes something else while gradients are recorded, which is what attacks follow."""
    with torch.no_grad():
        used = _unit(model, images)
    try:
        with torch.enable_grad():
            followed = _unit(model, images.detach().clone().requires_grad_()).detach()
    except (MemoryError, torch.OutOfMemoryError):
        raise
    except Exception:  # one without gradients has a flag of its own
        return []
    change = float((used - followed).norm(dim=1).max())
    why = f"an image's vector changes by up to {change:.2g} when gradients are recorded"
    return [] if change < 1e-3 else [Flag("gradient-path", why)]


def collapse(vectors: Tensor, labels: Tensor, seed: int) -> tuple[list[Flag], dict[str, Any]]:
    """An embedding in which everything is near everything; ERS rewards it. Also returns the geometry behind it."""
    found = geometry(vectors, labels, seed=seed)
    shown = {key: found[key] for key in ("distance_all", "effective_rank", "collapsed")}
    apart, rank = shown["distance_all"], shown["effective_rank"]
    if not shown["collapsed"]:
        return [], shown
    return [Flag("collapse", f"random images are {apart:.3g} apart and {rank:.1f} dimensions are in use")], shown


def backfires(measured: Mapping[str, Mapping[str, Tensor]]) -> list[Flag]:
    """Attacks on gallery images that leave many where their aim is farther away than it was."""
    found = []
    for name, upwards in UPWARDS.items():
        if name not in measured:
            continue
        clean = measured[name]["clean_place"]
        farther = (measured[name]["place"] - clean) * (1 if upwards else -1)
        fraction = float((farther > ROUNDED * clean).double().mean())
        if fraction > BACKFIRES:
            aim, end = ("raise", "lower") if upwards else ("lower", "higher")
            left = f"left {100 * fraction:.0f} % of them {end} than without it"
            found.append(f"{name.upper()} is to {aim} images, and {left}")
    return [Flag("attack-backfires", "; ".join(found))] if found else []


def _unit(model: nn.Module, images: Tensor) -> Tensor:
    return F.normalize(precise(model(images)), dim=1)


@torch.no_grad()
def _recall(model: nn.Module, images: Tensor, labels: Tensor) -> float | None:
    vectors = _unit(model, images)
    if not bool(vectors.isfinite().all()):
        return None
    return retrieval(vectors, labels, ks=(1,))["R@1"]
