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
"""Fraction of the probed images by which one attack must beat another before it counts as a sign."""


def masking_flags(subject: Subject, eps: float) -> list[Flag]:
    """All signs of masked gradients.

    Args:
        subject: the model, with the gallery it searches.
        eps: of the audit, in pixels.
    """
    rows = subject.rows[balanced_rows(subject.labels[subject.rows].cpu(), IMAGES, subject.seed).to(subject.rows.device)]
    images = subject.images(rows)
    zero = _zero_gradients(subject, images)
    margin = attacks.build("misrank").bind(subject.references, rows)
    clean = margin.measure(subject.references.clean(rows))["hit"] > 0

    def broken(vectors: Tensor) -> float:
        """Fraction of the queries that were right and now are wrong."""
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
    found, percent = list(zero), "{:.0f} %".format
    if by_search > by_gradient + MARGIN:
        why = f"breaks {percent(100 * by_search)} of the queries, the gradient only {percent(100 * by_gradient)}"
        found.append(Flag("search-beats-gradient", f"random search {why}"))
    if by_force < 1 - MARGIN:
        why = f"even with changes of {HUGE:g} per pixel, only {percent(100 * by_force)} of the queries break"
        found.append(Flag("large-eps-fails", why))
    if by_one_step > by_gradient + MARGIN:
        why = f"breaks {percent(100 * by_one_step)} of the queries, {STEPS} steps {percent(100 * by_gradient)}"
        found.append(Flag("more-steps-do-not-help", f"one step {why}"))
    return found


def _zero_gradients(subject: Subject, images: Tensor) -> list[Flag]:
    """Images whose embedding does not react to any pixel."""
    adversarial = images.detach().clone().requires_grad_()
    vectors = subject.model(adversarial)
    # Towards a random direction: a drawn image may be the own clean copy, where no model has a gradient.
    aim = torch.randn(vectors.shape, generator=subject.generator("probe-targets")).to(vectors)
    loss = cosine_similarity(vectors, aim, dim=1).sum()
    if not loss.requires_grad:
        fraction = 1.0
    else:
        (gradient,) = torch.autograd.grad(loss, adversarial, allow_unused=True)
        fraction = 1.0 if gradient is None else float((gradient.flatten(1).abs().amax(1) == 0).double().mean())
    if fraction <= MARGIN:
        return []
    return [Flag("zero-gradients", f"{100 * fraction:.0f} % of the images have a gradient of exactly zero")]
