"""Masked gradients: a model that looks robust because attacks by gradient cannot see, not because they cannot win.

Four signs, on a few images: random search does better than the gradient; even a huge perturbation leaves queries
unbroken; many steps do no better than one; the gradient is zero.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import cosine_similarity

from holdfast import attacks
from holdfast.attacks import Budget, pgd, square
from holdfast.audit.flags import Flag
from holdfast.audit.sampling import balanced_rows
from holdfast.audit.subject import Subject

IMAGES = 40
HUGE = 0.5
STEPS = 30
QUERIES = 200
MARGIN = 0.1
"""Share of the probed images by which one attack must beat another before it counts as a sign."""


def masking_flags(subject: Subject, eps: float) -> list[Flag]:
    """All signs of masked gradients.

    Args:
        subject: the model, with the gallery it searches.
        eps: radius of the audit, in pixels.
    """
    rows = subject.rows[balanced_rows(subject.labels[subject.rows].cpu(), IMAGES, subject.seed).to(subject.rows.device)]
    images = subject.images(rows)
    zero = _zero_gradients(subject, images)
    margin = attacks.build("misrank").bind(subject.references, rows)
    clean = margin.measure(subject.references.clean(rows))["hit"] > 0

    def broken(vectors: Tensor) -> float:
        """Share of the queries that were right and now are wrong."""
        hit = margin.measure(vectors)["hit"][clean] > 0
        return 1 - float(hit.double().mean())

    if not bool(clean.any()):
        return zero
    strong = Budget(eps=eps, steps=STEPS, method="apgd", start="uniform")
    by_gradient = broken(pgd(subject.model, images, margin, strong, generator=subject.generator("probe")).vectors)
    by_one_step = broken(pgd(subject.model, images, margin, Budget.fgsm(eps)).vectors)
    generator = subject.generator("probe-search")
    by_search = broken(
        square(subject.model, images, margin, Budget.fgsm(eps), queries=QUERIES, generator=generator).vectors
    )
    # From the image itself: random noise of this size would break queries without any help from the gradient.
    by_force = broken(pgd(subject.model, images, margin, Budget(eps=HUGE, steps=STEPS, method="apgd")).vectors)
    return [
        *zero,
        *_search_wins(by_search, by_gradient),
        *_force_fails(by_force),
        *_steps_fail(by_one_step, by_gradient),
    ]


def _zero_gradients(subject: Subject, images: Tensor) -> list[Flag]:
    """Images whose embedding does not react to any pixel."""
    moved = images.detach().clone().requires_grad_()
    vectors = subject.model(moved)
    # Towards a random direction: a drawn image may be the own clean copy, where no model has a gradient.
    aim = torch.randn(vectors.shape, generator=subject.generator("probe-targets")).to(vectors)
    loss = cosine_similarity(vectors, aim, dim=1).sum()
    if not loss.requires_grad:
        share = 1.0
    else:
        (gradient,) = torch.autograd.grad(loss, moved, allow_unused=True)
        share = 1.0 if gradient is None else float((gradient.flatten(1).abs().amax(1) == 0).double().mean())
    if share <= MARGIN:
        return []
    return [
        Flag(
            "zero-gradients",
            "error",
            f"{100 * share:.0f} % of the images have a gradient of exactly zero",
            "attacks by gradient cannot move them; look for rounding, saturation or detach() in the model",
        )
    ]


def _search_wins(by_search: float, by_gradient: float) -> list[Flag]:
    if by_search <= by_gradient + MARGIN:
        return []
    return [
        Flag(
            "search-beats-gradient",
            "error",
            f"random search breaks {100 * by_search:.0f} % of the queries, the gradient only {100 * by_gradient:.0f} %",
            "the gradient is masked; robustness figures from gradient attacks are too high",
        )
    ]


def _force_fails(by_force: float) -> list[Flag]:
    if by_force >= 1 - MARGIN:
        return []
    return [
        Flag(
            "large-eps-fails",
            "error",
            f"even with changes of {HUGE:g} per pixel, only {100 * by_force:.0f} % of the queries break",
            "no model can hold when the picture may be replaced; the attack is blind, so distrust every figure",
        )
    ]


def _steps_fail(by_one_step: float, by_gradient: float) -> list[Flag]:
    if by_one_step <= by_gradient + MARGIN:
        return []
    return [
        Flag(
            "more-steps-do-not-help",
            "error",
            f"one step breaks {100 * by_one_step:.0f} % of the queries, {STEPS} steps {100 * by_gradient:.0f} %",
            "the loss surface misleads the gradient, as after training against one-step attacks; trust `thorough`",
        )
    ]
