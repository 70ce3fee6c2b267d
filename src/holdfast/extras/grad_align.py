"""Gradients that agree around an image, so that one-step attacks stay honest (GradAlign)."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F

from holdfast.errors import RecipeError
from holdfast.extras.base import Term, register
from holdfast.mining.draw import sample
from holdfast.processes import current_processes
from holdfast.regimes import Batch, StepContext, StepResult
from holdfast.regimes.base import require_positive
from holdfast.sphere import masked_mean


@register("grad-align")
class GradAlign(Term):
    """Keep a one-step adversary strong: gradients must agree around an image; 2 passes more, each gone back twice.

    λ mean_i (1 - cos(∇_i L(x), ∇_i L(x + u))), u uniform in [-ε, ε], inside [0, 1]; ∇_i the gradient of image i

    Training against one step can end in a model that is robust against that step alone; its gradients then differ
    within ε. L is the recipe's loss of the whole batch, with the same draws in both. Images without a gradient, whose
    tuples are satisfied, do not count. BatchNorm layers that train see both batches. Passes go back twice, so
    `torch.compile` is left out of them.

    Args:
        weight: λ.
        eps: ε, in pixel units: that of the regime's budget.

    Requirements: one process; a loss without `memory` that can be differentiated twice, so no direct gradient,
        `circle`, `s2sd` or `proxy-nca`.
    Relations: for `at` and others with `budget: {steps: 1, start: uniform}`; more steps need it less.
    Reference: beyond the papers; Andriushchenko and Flammarion, NeurIPS 2020.
    """

    name = "grad-align"
    in_words = "with gradients that agree around an image"
    passes = 2
    repeats = differentiates = True

    def __init__(self, weight: float = 0.2, eps: float = 8 / 255) -> None:
        super().__init__(weight)
        require_positive("extras: eps of grad-align", eps)
        self.eps = eps

    def term(self, ctx: StepContext, batch: Batch, result: StepResult) -> Tensor:
        """The mean over the images that have a gradient in both places."""
        if current_processes().several:
            raise RecipeError("extras: grad-align runs in one process; train in one, or leave it out")
        drawn = sample(torch.rand, batch.images.shape, device=batch.images.device, generator=ctx.generator("align"))
        noisy = (batch.images + (2 * drawn - 1) * self.eps).clamp(0, 1)
        here, there = (self._slopes(ctx, batch, images).flatten(1) for images in (batch.images, noisy))
        known = here.detach().any(1) & there.detach().any(1)  # not those whose tuples are satisfied
        here, there = (torch.where(known[:, None], slopes, 1) for slopes in (here, there))
        return masked_mean(1 - F.cosine_similarity(here, there, eps=1e-30), known)

    def _slopes(self, ctx: StepContext, batch: Batch, images: Tensor) -> Tensor:
        """The gradient of the loss with respect to every image, with a graph."""
        images = images.detach().requires_grad_()
        encoded = ctx.encode(images, batch.labels, numbers=batch.numbers, compiled=False)
        loss = ctx.criterion(encoded, stage="loss-align")
        return torch.autograd.grad(loss, images, create_graph=True)[0]
