"""The bounds of pixels and a step inside them, each as one GPU kernel; `ball.py` says what they compute.

Written by hand, because a first step would wait a second for `torch.compile` to find them in its cache.
"""

from __future__ import annotations

import torch
import triton  # type: ignore[import-not-found,unused-ignore]
import triton.language as tl  # type: ignore[import-not-found,unused-ignore]
from torch import Tensor

BLOCK = 1024


def fits(*tensors: Tensor) -> bool:
    """Whether numbers of the same place in memory belong together: single precision, one layout without gaps."""
    first = tensors[0]
    dense = first.is_contiguous() or first.is_contiguous(memory_format=torch.channels_last)
    return dense and all(each.dtype == torch.float32 and each.stride() == first.stride() for each in tensors)


def pixel_bounds(images: Tensor, eps: float) -> tuple[Tensor, Tensor]:
    """As `ball.pixel_bounds`, of images that fit and are in [0, 1]."""
    low, high = torch.empty_like(images), torch.empty_like(images)
    exact = torch.full((), eps, dtype=torch.float64, device=images.device)  # a kernel's own numbers are float32
    count = images.numel()
    _bounds[(triton.cdiv(count, BLOCK),)](images, exact, low, high, count, BLOCK)
    return low, high


def signed_step(points: Tensor, gradient: Tensor, low: Tensor, high: Tensor, length: float | Tensor) -> Tensor:
    """As `ball.signed_step`, of points and bounds that fit and a gradient of any layout."""
    moved, count = torch.empty_like(points), points.numel()
    if not fits(points, gradient):
        gradient = torch.empty_like(points).copy_(gradient)
    if not isinstance(length, Tensor):
        length = torch.full((), length, device=points.device)
    _step[(triton.cdiv(count, BLOCK),)](points, gradient, low, high, length, moved, count, BLOCK)
    return moved


@triton.jit  # type: ignore[untyped-decorator,unused-ignore]
def _bounds(
    images: tl.tensor, eps: tl.tensor, low: tl.tensor, high: tl.tensor, count: tl.tensor, BLOCK: tl.constexpr
) -> None:
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    there = at < count
    image = tl.load(images + at, mask=there, other=0).to(tl.float64)
    exact = tl.load(eps)
    # A bound that rounding moved too far gives way by one number; from zero on these are in the order of their bits.
    below = (image - exact).to(tl.float32)
    bits = below.to(tl.int32, bitcast=True) + ((image - below.to(tl.float64) > exact) & (below >= 0)).to(tl.int32)
    tl.store(low + at, tl.where(below > 0, bits.to(tl.float32, bitcast=True), 0), mask=there)
    above = (image + exact).to(tl.float32)
    bits = above.to(tl.int32, bitcast=True) - (above.to(tl.float64) - image > exact).to(tl.int32)
    above = bits.to(tl.float32, bitcast=True)
    tl.store(high + at, tl.where(above < 1, above, 1), mask=there)


@triton.jit  # type: ignore[untyped-decorator,unused-ignore]
def _step(
    points: tl.tensor,
    gradient: tl.tensor,
    low: tl.tensor,
    high: tl.tensor,
    length: tl.tensor,
    moved: tl.tensor,
    count: tl.tensor,
    BLOCK: tl.constexpr,
) -> None:
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    there = at < count
    slope = tl.load(gradient + at, mask=there, other=0)
    sign = (slope > 0).to(tl.float32) - (slope < 0).to(tl.float32)
    point = tl.load(points + at, mask=there, other=0) - tl.load(length) * sign
    point = tl.maximum(point, tl.load(low + at, mask=there, other=0))
    tl.store(moved + at, tl.minimum(point, tl.load(high + at, mask=there, other=0)), mask=there)
