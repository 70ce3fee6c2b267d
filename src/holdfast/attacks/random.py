"""Random numbers for attacks.

Numbers are drawn on the generator's own device, so that a CPU generator gives the same attack whatever device the
images are on.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Generator, Tensor


def _place(device: torch.device, generator: Generator | None) -> torch.device:
    return device if generator is None else generator.device


def uniform(shape: Sequence[int], device: torch.device, generator: Generator | None) -> Tensor:
    """Uniform in [0, 1)."""
    return torch.rand(tuple(shape), generator=generator, device=_place(device, generator)).to(device)


def normal(shape: Sequence[int], device: torch.device, generator: Generator | None) -> Tensor:
    """Standard normal."""
    return torch.randn(tuple(shape), generator=generator, device=_place(device, generator)).to(device)


def below(high: int, shape: Sequence[int], device: torch.device, generator: Generator | None) -> Tensor:
    """Integers from 0 to high - 1."""
    return torch.randint(high, tuple(shape), generator=generator, device=_place(device, generator)).to(device)
