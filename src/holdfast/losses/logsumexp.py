"""Row-wise log of a sum of exponentials over chosen entries."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable


def masked_logsumexp(values: Tensor, mask: Tensor | None = None, scale: float = 1.0) -> Tensor:
    """log Σ exp(scale · v) over the entries of a row whose mask is one.

    Hugely negative for an empty row, with zero gradient where there is a mask; `softplus` of it is `log(1 + Σ exp)`.

    Args:
        values: a matrix.
        mask: zeros and ones of the same shape and type; all entries when left out.
        scale: factor of the values.
    """
    if values.numel() == 0:
        return values.sum(1)
    if mask is None and values.shape[1] == 1:
        return values.squeeze(1) * scale
    result: Tensor = _MaskedLogSumExp.apply(values, mask, scale)  # type: ignore[no-untyped-call]
    return result


class _MaskedLogSumExp(torch.autograd.Function):
    """The softmax gives both: it is the gradient, and its largest entry is exp(max - value).

    A plain `exp` takes a slow path wherever it underflows, which is almost everywhere in a sharp comparison.
    """

    @staticmethod
    def forward(ctx: Any, values: Tensor, mask: Tensor | None, scale: float) -> Tensor:
        if mask is None:
            present = values * scale
        else:
            # Half the largest number, so that the results of two empty rows can still be added.
            absent = (mask - 1).mul_(torch.finfo(values.dtype).max / 2)
            present = absent.add_(values, alpha=scale)
        peak = present.amax(1)
        shares = present.softmax(1)
        ctx.save_for_backward(shares)
        ctx.scale = scale
        return peak - shares.amax(1).log()

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, upstream: Tensor) -> tuple[Tensor, None, None]:
        (shares,) = ctx.saved_tensors
        return (ctx.scale * upstream)[:, None] * shares, None, None
