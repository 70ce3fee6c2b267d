"""Sums over a whole gallery, a block at a time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from holdfast.metrics.base import blocks
from holdfast.sphere import precise

Term: TypeAlias = Callable[[Tensor, slice], Tensor]
"""Embeddings and a block of the gallery → each embedding's part of the sum."""


def gallery_sum(z: Tensor, items: int, term: Term) -> Tensor:
    """Σ over the gallery of `term`, one value per embedding, in memory that does not grow with the gallery.

    Row i of a term must depend on row i of `z` alone; then one backward pass per block, done at once, leaves nothing
    to remember but a gradient of the shape of `z`.
    """
    z = precise(z)
    cuts = blocks(items, len(z))
    if torch.is_grad_enabled() and z.requires_grad:
        total: Tensor = _GallerySum.apply(z, cuts, term)  # type: ignore[no-untyped-call]
        return total
    return torch.stack([term(z, cut) for cut in cuts]).sum(0)


class _GallerySum(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, z: Tensor, cuts: list[slice], term: Term) -> Tensor:
        total, gradient = z.new_zeros(len(z)), torch.zeros_like(z)
        for cut in cuts:
            with torch.enable_grad():
                leaf = z.detach().requires_grad_()
                part = term(leaf, cut)
                gradient += torch.autograd.grad(part.sum(), leaf)[0]
            total += part.detach()
        ctx.save_for_backward(gradient)
        return total

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, upstream: Tensor) -> tuple[Tensor, None, None]:
        (gradient,) = ctx.saved_tensors
        return upstream[:, None] * gradient, None, None
