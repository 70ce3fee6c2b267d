"""Borrowing a model for an attack and giving it back as it was."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Literal, TypeAlias

import torch
from torch import nn

Statistics: TypeAlias = Literal["eval", "keep"]
"""`eval`: every submodule in eval mode. `keep`: each in the mode it is in (BatchNorm may use batch statistics)."""


@contextmanager
def frozen(module: object, statistics: Statistics = "eval") -> Iterator[None]:
    """Weights without gradients and, by default, eval mode everywhere, for the length of a block.

    Modes, gradient flags and the buffers of layers that were left training (running statistics) are put back
    afterwards, also after an exception. What is not an `nn.Module` has nothing to freeze.
    """
    if not isinstance(module, nn.Module):
        yield
        return
    modes = {part: part.training for part in module.modules()}
    flags = {parameter: parameter.requires_grad for parameter in module.parameters()}
    training = [part for part, mode in modes.items() if mode] if statistics == "keep" else []
    buffers = [(buffer, buffer.clone()) for part in training for buffer in part.buffers(recurse=False)]
    try:
        for parameter in flags:
            parameter.requires_grad_(False)
        if statistics == "eval":
            for part in modes:
                part.training = False  # not `.eval()`: a model may override it to do more
        yield
    finally:
        # Set one by one: `train(mode)` would spread the outer module's mode over layers that a policy keeps in eval.
        for part, mode in modes.items():
            part.training = mode
        for parameter, flag in flags.items():
            parameter.requires_grad_(flag)
        with torch.no_grad():
            for buffer, before in buffers:
                buffer.copy_(before)
