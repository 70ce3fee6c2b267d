"""Random numbers, and choosing one column per row of a masked matrix.

Rows in which nothing is allowed get an arbitrary column; the caller drops them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Generator, Tensor

from holdfast.sphere import Mask


def sample(draw: Callable[..., Tensor], *given: Any, device: torch.device, generator: Generator | None) -> Tensor:
    """Numbers drawn on the generator's own device, so that a CPU generator gives the same ones for every device.

    Args:
        draw: `torch.rand`, `torch.randn` or `torch.randint`.
        given: what it takes first, such as a shape.
        device: where the numbers are wanted.
        generator: their source; torch's global one when left out.
    """
    source = device if generator is None else generator.device
    kind = torch.int64 if draw is torch.randint else torch.float32  # whatever torch's default is
    return draw(*given, generator=generator, device=source, dtype=kind).to(device)


def uniform(allowed: Mask, generator: Generator | None) -> Tensor:
    """One allowed column per row, each with the same probability."""
    whole = torch.int16 if allowed.shape[1] < 2**15 else torch.int32  # the time goes into memory: the less the better
    rank = allowed.cumsum(1, dtype=whole)
    count = rank[:, -1:]
    drawn = sample(torch.rand, (len(allowed), 1), device=allowed.device, generator=generator)
    # Rounding may lift drawn × count to count itself, which is one past the last allowed column.
    wanted = torch.minimum((drawn * count).to(whole) + 1, count)
    return torch.searchsorted(rank, wanted).squeeze(1)


def weighted(log_weights: Tensor, allowed: Mask, generator: Generator | None) -> Tensor:
    """One allowed column per row with probability ∝ exp(log_weights).

    Weights of sphere densities span hundreds of orders of magnitude; adding Gumbel noise to their logarithms and
    taking the largest draws from the distribution without ever leaving the logarithm.
    """
    drawn = sample(torch.rand, log_weights.shape, device=log_weights.device, generator=generator)
    noise = -(-drawn.clamp_min(torch.finfo(drawn.dtype).tiny).log()).log()
    return (log_weights + noise).masked_fill_(~allowed, -torch.inf).argmax(1)


def nearest(distance: Tensor, allowed: Mask) -> Tensor:
    """The closest allowed column per row."""
    # Adding a huge number is several times faster than filling in by a mask.
    barred = (~allowed).to(distance.dtype).mul_(torch.finfo(distance.dtype).max)
    return barred.add_(distance).argmin(1)


def prefer(wanted: Mask, otherwise: Mask) -> Mask:
    """Per row the wanted columns, or the others where there are none."""
    return torch.where(wanted.any(1, keepdim=True), wanted, otherwise)
