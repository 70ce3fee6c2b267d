"""Adversarial weight perturbation (AWP)."""

from __future__ import annotations

import torch
from torch import Tensor

from holdfast.errors import RecipeError
from holdfast.extras.base import Extra, Inner, register
from holdfast.processes import current_processes
from holdfast.regimes import Batch, Regime, StepContext, StepResult
from holdfast.regimes.base import require_not_negative


@register("awp")
class WeightPerturbation(Extra):
    """Take the gradient where nearby weights do worst (AWP), for a flat loss; the step's learning passes once more.

    w ← w - lr ∇L(w + v), v_l = γ ||w_l|| g_l / ||g_l||, g = ∇L(w), for every layer l

    Images are crafted once, against w, and both gradients are of the same adversarial images and terms; what is random
    in a layer, such as dropout, is drawn anew for each, and a loss with a miner of its own mines at w and at w + v.
    Weights of one dimension (biases, BatchNorm) stay, and so does whatever the loss learns. Running statistics are
    updated once, at w + v, and what `hm` remembers of its loss is that at w. Afterwards the weights are those from
    before, to the bit, until the optimiser moves them. With mining groups each group has a v of its own.

    Args:
        gamma: γ. Classifiers take ten times the default, which more than doubles the triplet loss of an ImageNet
            ResNet-50, and which HM does not survive (study X4).

    Requirements: a regime that crafts before it learns, so not `free-hm`; a loss without `memory`. Name it last: extras
        that come after it have no part in v.
    Relations: γ = 0 is the step without it, dropout aside; `ema` averages weights along the way.
    Reference: beyond the papers; Wu et al., NeurIPS 2020.
    """

    in_words = "at weights perturbed against it"
    passes = 1
    repeats = True

    def __init__(self, gamma: float = 0.0005) -> None:
        require_not_negative("extras: gamma of awp", gamma)
        self.gamma = gamma

    def check(self, regime: Regime) -> None:
        """Refuse a regime whose images depend on its own gradients."""
        super().check(regime)
        if regime.replays > 1:
            raise RecipeError("extras: awp takes a step twice on the same images, and free-hm never does; use hm")

    def step(self, ctx: StepContext, batch: Batch, inner: Inner) -> StepResult:
        """The step at perturbed weights, which are put back when its gradients are there."""
        return ctx.repeat(lambda: inner(batch), lambda first: self._perturb(ctx, first.loss))

    def _perturb(self, ctx: StepContext, loss: Tensor) -> None:
        layers = [weight for weight in ctx.weights if weight.ndim > 1]
        slopes = torch.autograd.grad(loss, layers, allow_unused=True, materialize_grads=True)
        current_processes().add_all(slopes)
        before = [layer.detach().clone() for layer in layers]

        @torch.no_grad()
        def undo() -> None:
            for layer, value in zip(layers, before, strict=True):
                layer.copy_(value)

        ctx.afterwards(undo)
        with torch.no_grad():
            for layer, slope in zip(layers, slopes, strict=True):
                length = torch.linalg.vector_norm(slope).clamp_min(1e-30)
                layer.add_(slope * (self.gamma * torch.linalg.vector_norm(layer) / length))
