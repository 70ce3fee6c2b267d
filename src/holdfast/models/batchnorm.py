"""BatchNorm policies: what training may change in the normalisation layers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal, TypeAlias

from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm

BatchNormPolicy: TypeAlias = Literal["train", "freeze-statistics", "freeze"]
"""`train`: batch statistics, running ones updated. `freeze-statistics`: running statistics are used and kept, the
affine weights train. `freeze`: neither changes."""


def batchnorm_layers(module: nn.Module) -> Iterator[_BatchNorm]:
    """Every BatchNorm layer inside a module."""
    return (m for m in module.modules() if isinstance(m, _BatchNorm))


def apply_policy(module: nn.Module, policy: BatchNormPolicy) -> None:
    """Put the BatchNorm layers of a module that is in training mode under a policy."""
    for layer in batchnorm_layers(module):
        if policy != "train":
            layer.eval()
        if policy == "freeze":
            layer.requires_grad_(False)
