"""Choosing one column per row of a masked matrix.

Rows in which nothing is allowed get an arbitrary column; the caller drops them. Numbers are drawn on the generator's
own device, so that a CPU generator gives the same tuples whatever device holds the embeddings.
"""

from __future__ import annotations

import torch
from torch import Generator, Tensor

from holdfast.sphere import Mask


def uniform(allowed: Mask, generator: Generator | None) -> Tensor:
    """One allowed column per row, each with the same probability."""
    whole = torch.int16 if allowed.shape[1] < 2**15 else torch.int32  # the time goes into memory: the less the better
    rank = allowed.cumsum(1, dtype=whole)
    count = rank[:, -1:]
    drawn = _rand((len(allowed), 1), allowed.device, generator)
    # Rounding may lift drawn × count to count itself, which is one past the last allowed column.
    wanted = torch.minimum((drawn * count).to(whole) + 1, count)
    return torch.searchsorted(rank, wanted).squeeze(1)


def weighted(log_weights: Tensor, allowed: Mask, generator: Generator | None) -> Tensor:
    """One allowed column per row with probability ∝ exp(log_weights).

    Weights of sphere densities span hundreds of orders of magnitude; adding Gumbel noise to their logarithms and
    taking the largest draws from the distribution without ever leaving the logarithm.
    """
    drawn = _rand(tuple(log_weights.shape), log_weights.device, generator)
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


def _rand(shape: tuple[int, ...], device: torch.device, generator: Generator | None) -> Tensor:
    source = device if generator is None else generator.device
    return torch.rand(shape, generator=generator, device=source).to(device)
