"""The set of images an attack may return: a ball around each image, inside [0, 1]."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Generator, Tensor

from holdfast.attacks.budget import Norm
from holdfast.attacks.shard import Shard
from holdfast.errors import DataError
from holdfast.mining.draw import sample


class Ball:
    """All images within ε of the given ones that are still images.

    The bounds hold exactly, not up to rounding: pixel bounds are rounded towards the image, and `finish` shortens a
    euclidean perturbation that rounding made too long.

    Args:
        images: the centres, in [0, 1].
        eps: ε in pixel units.
        norm: `linf` or `l2` over all pixels of an image.
        compiled: on an NVIDIA GPU, find the bounds of pixels in one kernel, where twenty take as long as a third of a
            pass, and take each step in one, where three move twice the memory.
    """

    def __init__(self, images: Tensor, eps: float, norm: Norm, compiled: bool = False) -> None:
        self.images = images
        self.eps = eps
        self.norm = norm
        self._kernels = _kernels(compiled and images.is_cuda)
        if norm == "linf":
            here = self._kernels is not None and self._kernels.fits(images)
            find: Callable[..., tuple[Tensor, Tensor]] = self._kernels.pixel_bounds if here else pixel_bounds
            self.low, self.high = find(images, eps)

    def part(self, rows: slice) -> Ball:
        """The ball of some of the images."""
        part = copy.copy(self)
        part.images = self.images[rows]
        if self.norm == "linf":
            part.low, part.high = self.low[rows], self.high[rows]
        return part

    def start(self, eps: float, generator: Generator | None, shard: Shard | None = None) -> Tensor:
        """A point drawn uniformly within some ε of each image; the image itself for 0.

        Args:
            eps: in pixel units.
            generator: source of every draw.
            shard: which images of an attack these are; what is drawn does not depend on who has the others.
        """
        if eps == 0:
            return self.images.clone()
        shard = shard or Shard(slice(None), len(self.images))
        shape, device = (shard.total, *self.images.shape[1:]), self.images.device
        if self.norm == "linf":
            noise = (2 * sample(torch.rand, shape, device=device, generator=generator)[shard.rows] - 1) * eps
        else:
            noise = along(sample(torch.randn, shape, device=device, generator=generator), "l2")[shard.rows]
            drawn = sample(torch.rand, shard.total, device=device, generator=generator) ** (1 / math.prod(shape[1:]))
            noise = noise * per_image(drawn[shard.rows] * eps, noise)
        return self.project(self.images + noise)

    def project(self, points: Tensor) -> Tensor:
        """The nearest allowed image, up to rounding."""
        if self.norm == "linf":
            return torch.clamp(points, self.low, self.high)
        change = points - self.images
        factor = (self.eps / _lengths(change).clamp_min(1e-30)).clamp_max(1)
        return (self.images + change * per_image(factor, change)).clamp(0, 1)

    def step(self, points: Tensor, gradient: Tensor, length: float | Tensor) -> Tensor:
        """The nearest allowed image to where a step against the gradient leads."""
        if self.norm == "linf":
            bounds = self.low, self.high
            here = self._kernels is not None and self._kernels.fits(points, *bounds)
            take: Callable[..., Tensor] = self._kernels.signed_step if here else signed_step
            return take(points, gradient, *bounds, length)
        if isinstance(length, Tensor):
            return self.project(points - length * along(gradient, self.norm))
        return self.project(torch.sub(points, along(gradient, self.norm), alpha=length))

    def finish(self, points: Tensor, checked: bool = True) -> Tensor:
        """The points, inside the ball to the last digit and, unless told otherwise, checked to be."""
        if self.norm == "l2":
            points = self._shortened(points)
        if checked and not bool(self.contains(points).all()):
            raise RuntimeError("an attack left its ball: a defect of holdfast, please report it")
        return points

    def contains(self, points: Tensor) -> Tensor:
        """Whether each point is an image within ε of its centre, judged in double precision."""
        change = points.double() - self.images.double()
        size = change.flatten(1).abs().amax(1) if self.norm == "linf" else _lengths(change)
        # In float64 the bound itself is only known to a rounding.
        slack = 1e-15 if points.dtype == torch.float64 else 0.0
        low, high = points.flatten(1).aminmax(dim=1)
        return (size <= self.eps + slack) & (low >= 0) & (high <= 1)

    def _shortened(self, points: Tensor) -> Tensor:
        for _ in range(8):
            lengths = _lengths(points.double() - self.images.double())
            over = lengths > self.eps
            factor = torch.where(over, self.eps / lengths.clamp_min(1e-300) * (1 - 1e-6), 1.0)
            scaled = self.images + (points - self.images) * per_image(factor, points).to(points.dtype)
            points = torch.where(per_image(over, points), scaled.clamp(0, 1), points)
        # An ε below the resolution of the pixels leaves no room for any change.
        over = _lengths(points.double() - self.images.double()) > self.eps
        return torch.where(per_image(over, points), self.images, points)


def pixel_bounds(images: Tensor, eps: float) -> tuple[Tensor, Tensor]:
    """The least and the greatest number in [0, 1] that is within ε of each pixel, rounded towards the pixel."""
    return _bound(images, -eps).clamp_min(0), _bound(images, eps).clamp_max(1)


def _bound(images: Tensor, eps: float) -> Tensor:
    bound = (images.double() + eps).to(images.dtype)
    outside = (bound.double() - images.double()).abs() > abs(eps)
    return torch.where(outside, torch.nextafter(bound, images), bound)


def signed_step(points: Tensor, gradient: Tensor, low: Tensor, high: Tensor, length: float | Tensor) -> Tensor:
    """A step against the signs of the gradient, ended at the bounds of each pixel."""
    return torch.clamp(points - length * gradient.sign(), low, high)


def _kernels(wanted: bool) -> Any:
    """What a GPU does in one kernel; None where it is not wanted."""
    if not wanted:
        return None
    from holdfast.attacks import ball_kernels  # needs triton

    return ball_kernels


def along(gradient: Tensor, norm: Norm) -> Tensor:
    """The direction of unit size in a norm: signs, or the gradient of each image at length one (zero stays zero)."""
    if norm == "linf":
        return gradient.sign()
    return gradient / per_image(_lengths(gradient).clamp_min(1e-30), gradient)


def pixels(images: Tensor) -> Tensor:
    """Images as attacks need them: floats in [0, 1], in single precision or better."""
    if images.ndim < 2 or len(images) == 0:
        raise DataError(f"an attack needs a batch of images, got a tensor of shape {tuple(images.shape)}")
    if not images.is_floating_point():
        raise DataError(f"an attack needs images as floats in [0, 1], got {images.dtype}; divide by 255 first")
    images = images.detach() if images.dtype in (torch.float32, torch.float64) else images.detach().float()
    low, high = images.aminmax()
    if not (low >= 0 and high <= 1):
        raise DataError(
            f"an attack needs images in [0, 1], got {float(low):.3g} to {float(high):.3g}; "
            "pixel normalisation belongs inside the model"
        )
    return images


def _lengths(change: Tensor) -> Tensor:
    length: Tensor = torch.linalg.vector_norm(change.flatten(1), dim=1)
    return length


def per_image(values: Tensor, images: Tensor) -> Tensor:
    """One value per image, shaped to multiply images."""
    return values.view(-1, *[1] * (images.ndim - 1))
