"""Smooth functions in the place of ReLU."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, TypeAlias

from torch import nn

from holdfast.errors import ModelError

Activation: TypeAlias = Literal["softplus", "silu"]
"""`softplus`: log(1 + exp(10 x)) / 10, which weights trained with ReLU hardly notice. `silu`: x / (1 + exp(-x))."""

SMOOTH: dict[Activation, Callable[[], nn.Module]] = {"softplus": lambda: nn.Softplus(beta=10), "silu": nn.SiLU}


def use_activation(backbone: nn.Module, name: Activation) -> None:
    """Put a smooth function in the place of every ReLU; weights keep their names.

    The gradients of a smooth network change gradually, for attacks and for training. Reference: Xie et al., "Smooth
    adversarial training", 2020.
    """
    relus = [
        (module, child)
        for module in backbone.modules()
        for child, layer in module.named_children()
        if type(layer) is nn.ReLU
    ]
    if not relus:
        raise ModelError(f"activation: {name} takes the place of ReLU, and this backbone has none; leave it out")
    for module, child in relus:
        setattr(module, child, SMOOTH[name]())
