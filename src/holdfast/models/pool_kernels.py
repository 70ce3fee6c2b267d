"""Max pooling of a frozen network's first layer as two GPU kernels; `fused.pool` says what they compute.

Both work on channels-last memory, one row of outputs and all channels at a time, so that places are worked out once for
a row of pixels and not once for each number.
"""

from __future__ import annotations

import torch
import triton  # type: ignore[import-not-found,unused-ignore]
import triton.language as tl  # type: ignore[import-not-found,unused-ignore]
from torch import Tensor, channels_last

COLUMNS = 16
"""Outputs of a row that one program works out."""


def forward(x: Tensor, factor: Tensor, addend: Tensor) -> tuple[Tensor, Tensor]:
    """The maxima of relu(factor x + addend) and their places; x is channels-last."""
    batch, channels, height, width = x.shape
    high, broad = (height + 1) // 2, (width + 1) // 2
    out = torch.empty((batch, channels, high, broad), dtype=x.dtype, device=x.device, memory_format=channels_last)
    place = torch.empty_like(out, dtype=torch.int8)
    grid = (batch * high, triton.cdiv(broad, COLUMNS))
    block = triton.next_power_of_2(channels)
    _forward[grid](x, factor, addend, out, place, height, width, high, broad, channels, COLUMNS, block)
    return out, place


def backward(gradient: Tensor, place: Tensor, factor: Tensor, height: int, width: int) -> Tensor:
    """The gradient of x, of one of the maxima; both are channels-last."""
    batch, channels, high, broad = gradient.shape
    found = torch.empty(
        (batch, channels, height, width), dtype=gradient.dtype, device=gradient.device, memory_format=channels_last
    )
    grid = (batch * high, triton.cdiv(broad, COLUMNS))
    block = triton.next_power_of_2(channels)
    _backward[grid](gradient, place, factor, found, height, width, high, broad, channels, COLUMNS, block)
    return found


@triton.jit  # type: ignore[untyped-decorator,unused-ignore]
def _forward(
    x: tl.tensor,
    factor: tl.tensor,
    addend: tl.tensor,
    out: tl.tensor,
    place: tl.tensor,
    height: tl.tensor,
    width: tl.tensor,
    high: tl.tensor,
    broad: tl.tensor,
    channels: tl.tensor,
    COLUMNS: tl.constexpr,
    BLOCK: tl.constexpr,
) -> None:
    image = (tl.program_id(0) // high).to(tl.int64)
    row = tl.program_id(0) % high
    column = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    rows = row + tl.zeros_like(column)  # one for each, as masks need it
    channel = tl.arange(0, BLOCK)
    real = channel < channels
    multiply = tl.load(factor + channel, mask=real, other=0)[None, :]
    add = tl.load(addend + channel, mask=real, other=0)[None, :]
    start = x + image * height * width * channels
    best = tl.full((COLUMNS, BLOCK), float("-inf"), multiply.dtype)
    where = tl.full((COLUMNS, BLOCK), 9, tl.int32)
    for number in tl.static_range(9):
        down = 2 * rows - 1 + number // 3
        across = 2 * column - 1 + number % 3
        there = ((down >= 0) & (down < height) & (across >= 0) & (across < width))[:, None] & real[None, :]
        value = tl.load(start + (down * width + across)[:, None] * channels + channel[None, :], mask=there, other=0)
        value = value.to(multiply.dtype) * multiply + add
        better = there & ((value > best) | (value != value))
        best = tl.where(better, value, best)
        where = tl.where(better, number, where)
    keep = (column < broad)[:, None] & real[None, :]
    offset = ((image * high + row) * broad + column)[:, None] * channels + channel[None, :]
    tl.store(out + offset, tl.where(best < 0, 0, best), mask=keep)
    tl.store(place + offset, tl.where(best > 0, where, 9).to(tl.int8), mask=keep)


@triton.jit  # type: ignore[untyped-decorator,unused-ignore]
def _backward(
    gradient: tl.tensor,
    place: tl.tensor,
    factor: tl.tensor,
    found: tl.tensor,
    height: tl.tensor,
    width: tl.tensor,
    high: tl.tensor,
    broad: tl.tensor,
    channels: tl.tensor,
    COLUMNS: tl.constexpr,
    BLOCK: tl.constexpr,
) -> None:
    # Pixels (2 r, 2 c) to (2 r + 1, 2 c + 1) were seen by the windows (r, c) to (r + 1, c + 1) alone.
    image = (tl.program_id(0) // high).to(tl.int64)
    row = tl.program_id(0) % high
    column = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    rows = row + tl.zeros_like(column)  # one for each, as masks need it
    channel = tl.arange(0, BLOCK)
    real = channel < channels
    multiply = tl.load(factor + channel, mask=real, other=0)[None, :]
    here = ((image * high + row) * broad + column)[:, None] * channels + channel[None, :]
    inside = (column < broad)[:, None] & real[None, :]
    right = (column + 1 < broad)[:, None] & real[None, :]
    below = inside & (rows + 1 < high)[:, None]
    beyond = right & (rows + 1 < high)[:, None]
    at00 = tl.load(place + here, mask=inside, other=9)
    at01 = tl.load(place + here + channels, mask=right, other=9)
    at10 = tl.load(place + here + broad * channels, mask=below, other=9)
    at11 = tl.load(place + here + broad * channels + channels, mask=beyond, other=9)
    from00 = tl.load(gradient + here, mask=inside, other=0).to(multiply.dtype) * multiply
    from01 = tl.load(gradient + here + channels, mask=right, other=0).to(multiply.dtype) * multiply
    from10 = tl.load(gradient + here + broad * channels, mask=below, other=0).to(multiply.dtype) * multiply
    from11 = tl.load(gradient + here + broad * channels + channels, mask=beyond, other=0).to(multiply.dtype)
    from11 = from11 * multiply
    even_even = tl.where(at00 == 4, from00, 0)
    even_odd = tl.where(at00 == 5, from00, 0) + tl.where(at01 == 3, from01, 0)
    odd_even = tl.where(at00 == 7, from00, 0) + tl.where(at10 == 1, from10, 0)
    odd_odd = tl.where(at00 == 8, from00, 0) + tl.where(at01 == 6, from01, 0)
    odd_odd += tl.where(at10 == 2, from10, 0) + tl.where(at11 == 0, from11, 0)
    start = found + image * height * width * channels
    there = start + (2 * row * width + 2 * column)[:, None] * channels + channel[None, :]
    wide = inside & (2 * column + 1 < width)[:, None]
    tall = (2 * rows + 1 < height)[:, None]
    tl.store(there, even_even, mask=inside)
    tl.store(there + channels, even_odd, mask=wide)
    tl.store(there + width * channels, odd_even, mask=inside & tall)
    tl.store(there + width * channels + channels, odd_odd, mask=wide & tall)
