"""Borrowing a model for an attack and giving it back as it was."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import Literal, TypeAlias

import torch
from torch import nn

from holdfast.models.modes import in_eval_mode

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
    flags = {parameter: parameter.requires_grad for parameter in module.parameters()}
    training = [part for part in module.modules() if part.training] if statistics == "keep" else []
    buffers = [(buffer, buffer.clone()) for part in training for buffer in part.buffers(recurse=False)]
    try:
        for parameter in flags:
            parameter.requires_grad_(False)
        with in_eval_mode(module) if statistics == "eval" else nullcontext():
            yield
    finally:
        for parameter, flag in flags.items():
            parameter.requires_grad_(flag)
        with torch.no_grad():
            for buffer, before in buffers:
                buffer.copy_(before)
