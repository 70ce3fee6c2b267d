"""Eval mode for the length of a block."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

from torch import nn


class HasModules(Protocol):
    """A module, or what is used as one."""

    def modules(self) -> Iterator[nn.Module]:
        """It and all that it is made of."""


@contextmanager
def in_eval_mode(module: HasModules) -> Iterator[None]:
    """Every part in eval mode for the length of a block, and afterwards, also after an exception, in its own.

    Modes are set one by one: a model may override `eval` to do more, and `train(mode)` would spread the outer module's
    mode over layers that stay in eval mode inside a model that trains. A frozen script has no modes.
    """
    modes = {part: part.training for part in module.modules() if hasattr(part, "training")}
    try:
        for part in modes:
            part.training = False
        yield
    finally:
        for part, mode in modes.items():
            part.training = mode
