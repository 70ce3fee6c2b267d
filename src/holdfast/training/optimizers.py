"""Optimisers a recipe can name, and the running average of weights."""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Callable
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from holdfast.registry import Registry


@dataclasses.dataclass(frozen=True, kw_only=True)
class Optimizer:
    """Settings of an optimiser.

    Args:
        lr: learning rate of the model.
        loss_lr: learning rate of the loss's own parameters (margin's β, proxies); `lr` when left out.
        weight_decay: L2 penalty on the weights of the model (decoupled for adamw).
        loss_weight_decay: the same on the loss's own parameters: none, as in the framework the papers build on. A
            penalty would pull β and proxies to zero, where no class belongs.
    """

    lr: float = 1e-5
    loss_lr: float | None = None
    weight_decay: float = 4e-4
    loss_weight_decay: float = 0.0
    torch_class: ClassVar[Callable[..., torch.optim.Optimizer]]
    """Takes parameter groups, with their rates and weight decay, and the settings that a class adds to those above."""
    on_gpu: ClassVar[dict[str, bool]] = {}
    """More arguments of a class that updates all weights at once on a GPU, at a rate which that GPU holds: what a
    captured step needs."""

    def __post_init__(self) -> None:
        if self.lr <= 0 or (self.loss_lr is not None and self.loss_lr <= 0):
            raise ValueError("learning rates must be positive")
        if self.weight_decay < 0 or self.loss_weight_decay < 0:
            raise ValueError("weight decay must not be negative")

    def build(self, model: nn.Module, criterion: nn.Module) -> torch.optim.Optimizer:
        """The torch optimiser over a model and the parameters of its criterion."""
        loss_lr = self.lr if self.loss_lr is None else self.loss_lr
        parts = ((model, self.lr, self.weight_decay), (criterion, loss_lr, self.loss_weight_decay))
        groups: list[dict[str, Any]] = []
        for module, lr, decay in parts:
            own = [p for p in module.parameters() if p.requires_grad]
            if own or module is model:
                groups.append({"params": own, "lr": lr, "initial_lr": lr, "weight_decay": decay})
        common = {field.name for field in dataclasses.fields(Optimizer)}
        added = {name: value for name, value in vars(self).items() if name not in common}
        device = next(model.parameters()).device
        if device.type == "cuda" and self.on_gpu:
            added |= self.on_gpu
            for group in groups:
                group["lr"] = torch.tensor(group["lr"], device=device)
        return type(self).torch_class(groups, **added)


def set_rates(optimizer: torch.optim.Optimizer, factor: float) -> float:
    """Set every group's learning rate to a multiple of its first, and say that of the model."""
    for group in optimizer.param_groups:
        rate = group["initial_lr"] * factor
        if isinstance(group["lr"], Tensor):
            group["lr"].fill_(rate)
        else:
            group["lr"] = rate
    return float(optimizer.param_groups[0]["initial_lr"] * factor)


registry: Registry[Optimizer] = Registry("optimizer", Optimizer, "holdfast.training.optimizers")
register = registry.register


@register("adam")
@dataclasses.dataclass(frozen=True, kw_only=True)
class Adam(Optimizer):
    """Adam with L2 weight decay, as the papers use it."""

    betas: tuple[float, float] = (0.9, 0.999)
    torch_class: ClassVar[Callable[..., torch.optim.Optimizer]] = torch.optim.Adam
    on_gpu = {"fused": True, "capturable": True}  # noqa: RUF012

    def __post_init__(self) -> None:
        super().__post_init__()
        if not all(0 <= beta < 1 for beta in self.betas):
            raise ValueError(f"betas are decay rates in [0, 1), got {self.betas[0]:g} and {self.betas[1]:g}")


@register("adamw")
@dataclasses.dataclass(frozen=True, kw_only=True)
class AdamW(Adam):
    """Adam with decoupled weight decay."""

    torch_class = torch.optim.AdamW


@register("sgd")
@dataclasses.dataclass(frozen=True, kw_only=True)
class SGD(Optimizer):
    """Stochastic gradient descent, without momentum unless asked (as the GS paper)."""

    momentum: float = 0.0
    nesterov: bool = False
    torch_class = torch.optim.SGD
    on_gpu = {"fused": True}  # noqa: RUF012

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 <= self.momentum < 1:
            raise ValueError(f"momentum is a decay rate in [0, 1), got {self.momentum:g}")
        if self.nesterov and self.momentum == 0:
            raise ValueError("nesterov needs momentum; set optimizer.momentum, such as 0.9")


class Average(nn.Module):
    """A moving average of a model's weights, of which those before training are no part; buffers are copied.

    w̄_t = Σ_k d^(t-k) w_k / Σ_k d^(t-k) over the updates k = 1 … t

    Args:
        model: the model that trains.
        decay: d, e.g. 0.999.
    """

    total: Tensor
    """(1 - d) Σ_k d^(t-k), which is 1 - d^t."""

    def __init__(self, model: nn.Module, decay: float) -> None:
        super().__init__()
        self.model = copy.deepcopy(model).requires_grad_(False)
        self.decay = decay
        self.register_buffer("total", torch.zeros((), device=next(model.parameters()).device))

    @torch.no_grad()
    def update(self, model: nn.Module) -> None:
        """Move the average towards the model's present weights."""
        self.total.mul_(self.decay).add_(1 - self.decay)
        own = tuple(self.model.parameters())
        moves = torch._foreach_sub(tuple(model.parameters()), own)
        torch._foreach_mul_(moves, (1 - self.decay) / self.total)
        torch._foreach_add_(own, moves)
        if buffers := tuple(self.model.buffers()):
            torch._foreach_copy_(buffers, tuple(model.buffers()))
