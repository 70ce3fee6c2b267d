"""The bounds of pixels hold exactly, however they are computed."""

from __future__ import annotations

import pytest
import torch

from holdfast.attacks.ball import Ball, pixel_bounds, signed_step
from kernels import interpret

EPS = (8 / 255, 0.01, 1e-9, 0.0314)


def images() -> torch.Tensor:
    drawn = torch.rand(4, 3, 16, 16, generator=torch.Generator().manual_seed(2))
    drawn[0] = (255 * drawn[0]).round() / 255
    return drawn.contiguous(memory_format=torch.channels_last)


@pytest.mark.parametrize("eps", EPS)
def test_bounds_are_inside_and_next_to_the_edge(eps: float) -> None:
    pixels = images()
    low, high = pixel_bounds(pixels, eps)
    ball = Ball(pixels, eps, "linf")
    assert ball.contains(low).all()
    assert ball.contains(high).all()
    beyond = torch.nextafter(high, torch.ones_like(high) * 2).double() - pixels.double()
    assert ((beyond > eps) | (high == 1)).all()


@pytest.mark.parametrize("eps", [8 / 255, 0.01])
def test_a_step_goes_against_the_signs_and_ends_at_the_bounds(eps: float) -> None:
    pixels = images()
    gradient = torch.randn(pixels.shape, generator=torch.Generator().manual_seed(3)).relu() - 0.3
    moved = signed_step(pixels, gradient, *pixel_bounds(pixels, eps), 0.7 * eps)
    assert Ball(pixels, eps, "linf").contains(moved).all()
    inside = (pixels > eps) & (pixels < 1 - eps)
    torch.testing.assert_close(
        (moved - pixels).abs()[inside], torch.full_like(pixels, 0.7 * eps)[inside], atol=1e-7, rtol=0
    )
    assert (moved > pixels).any()
    assert (moved < pixels).any()


def test_the_kernels_of_a_gpu_find_the_same_bounds_and_points() -> None:
    interpret(KERNELS)


KERNELS = """
import torch
from holdfast.attacks import ball, ball_kernels

generator = torch.Generator().manual_seed(0)
for layout in (torch.contiguous_format, torch.channels_last):
    x = torch.rand(3, 3, 17, 19, generator=generator).contiguous(memory_format=layout)
    x[0, 0, 0, :4] = torch.tensor([0.0, 1.0, 1e-9, 8 / 255])
    x[1] = torch.randint(0, 256, (3, 17, 19), generator=generator) / 255
    for eps in (8 / 255, 1 / 3, 1e-9, 0.031372):
        for mine, plain in zip(ball_kernels.pixel_bounds(x, eps), ball.pixel_bounds(x, eps), strict=True):
            assert torch.equal(mine, plain), eps
    bounds = ball.pixel_bounds(x, 8 / 255)
    slope = torch.randn(x.shape, generator=generator).contiguous(memory_format=layout)
    slope[0] = 0
    assert ball_kernels.fits(x, slope, *bounds)
    for length in (1 / 255, torch.tensor(0.003)):
        given = x, slope, *bounds, length
        assert torch.equal(ball_kernels.signed_step(*given), ball.signed_step(*given))
        other = x, slope.contiguous(memory_format=torch.channels_last), *bounds, length
        assert torch.equal(ball_kernels.signed_step(*other), ball.signed_step(*given))
assert not ball_kernels.fits(x, x.contiguous())
assert not ball_kernels.fits(x.double())
"""
