"""BatchNorm over the images of all processes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F
from torch.overrides import TorchFunctionMode

from holdfast.processes.group import Processes, current_processes
from holdfast.sphere import precise


class SharedBatchNorm(TorchFunctionMode):
    """While active, layers that normalise by their batch do so by the batch of all processes.

    Any layer that calls `torch.nn.functional.batch_norm` is meant, whatever tensors it is lent, so BatchNorm sets and
    timm's layers need nothing of their own. Running statistics are kept alike in every process. Layers in eval mode,
    and those whose statistics are frozen, normalise as always and communicate nothing.
    """

    def __init__(self) -> None:
        super().__init__()
        self._processes = current_processes()

    def __torch_function__(
        self, func: Callable[..., Any], types: Sequence[type], args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        if func is F.batch_norm:
            return self._normalise(*args, **(kwargs or {}))
        return func(*args, **(kwargs or {}))

    def _normalise(
        self,
        input: Tensor,
        running_mean: Tensor | None,
        running_var: Tensor | None,
        weight: Tensor | None = None,
        bias: Tensor | None = None,
        training: bool = False,
        momentum: float = 0.1,
        eps: float = 1e-5,
    ) -> Tensor:
        """As `torch.nn.functional.batch_norm`."""
        if not training:
            return F.batch_norm(input, running_mean, running_var, weight, bias, False, momentum, eps)
        normal: Tensor
        normal, mean, variance, count = _Whiten.apply(precise(input), self._processes, eps)  # type: ignore[no-untyped-call]
        with torch.no_grad():
            if running_mean is not None and running_var is not None:
                running_mean.lerp_(mean.to(running_mean), momentum)
                running_var.lerp_((variance * (count / (count - 1))).to(running_var), momentum)
        shape = (1, -1, *[1] * (input.ndim - 2))
        if weight is not None:
            normal = normal * weight.view(shape)
        if bias is not None:
            normal = normal + bias.view(shape)
        return normal.to(input.dtype)


class _Whiten(torch.autograd.Function):
    """Each channel to mean 0 and variance 1 over all processes; returns also both, and how many values there were."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, processes: Processes, eps: float) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        around = [0, *range(2, x.ndim)]
        shape = (1, -1, *[1] * (x.ndim - 2))
        count = x.numel() // x.shape[1]
        mean = x.sum(around) / max(count, 1)
        spread = (x - mean.view(shape)).square().sum(around)
        mine = torch.cat((mean, spread, mean.new_tensor([count])))
        everyone = processes.collect(mine[None], [1] * processes.world)
        means, spreads, counts = torch.split(everyone, [x.shape[1], x.shape[1], 1], 1)
        total = counts.sum()
        mean = (means * counts).sum(0) / total
        # Squares about the mean of each process, moved to the mean of all: exact where sums of squares cancel.
        variance = (spreads + counts * (means - mean).square()).sum(0) / total
        scale = (variance + eps).rsqrt()
        normal = (x - mean.view(shape)) * scale.view(shape)
        ctx.processes = processes
        ctx.save_for_backward(normal, scale, total)
        ctx.mark_non_differentiable(mean, variance, total)
        return normal, mean, variance, total

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None, None]:
        normal, scale, total = ctx.saved_tensors
        along = gradients[0]
        around = [0, *range(2, normal.ndim)]
        shape = (1, -1, *[1] * (normal.ndim - 2))
        sums = torch.stack((along.sum(around), (along * normal).sum(around)))
        means = ctx.processes.add(sums) / total
        return scale.view(shape) * (along - means[0].view(shape) - normal * means[1].view(shape)), None, None
