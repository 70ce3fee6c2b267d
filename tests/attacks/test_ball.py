"""The bounds of pixels hold exactly, however they are computed."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from holdfast.attacks.ball import Ball, pixel_bounds, signed_step

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


@pytest.mark.slow
@pytest.mark.parametrize("eps", EPS)
def test_compiled_bounds_are_the_same(eps: float) -> None:
    compiled = torch.compile(pixel_bounds, dynamic=True)
    for mine, theirs in zip(compiled(images(), eps), pixel_bounds(images(), eps), strict=True):
        assert torch.equal(mine, theirs)


def step(take: Callable[..., torch.Tensor], eps: float) -> torch.Tensor:
    pixels = images()
    gradient = torch.randn(pixels.shape, generator=torch.Generator().manual_seed(3)).relu() - 0.3
    return take(pixels, gradient, *pixel_bounds(pixels, eps), 0.7 * eps)


@pytest.mark.parametrize("eps", [8 / 255, 0.01])
def test_a_step_goes_against_the_signs_and_ends_at_the_bounds(eps: float) -> None:
    pixels, moved = images(), step(signed_step, eps)
    assert Ball(pixels, eps, "linf").contains(moved).all()
    inside = (pixels > eps) & (pixels < 1 - eps)
    torch.testing.assert_close(
        (moved - pixels).abs()[inside], torch.full_like(pixels, 0.7 * eps)[inside], atol=1e-7, rtol=0
    )
    assert (moved > pixels).any()
    assert (moved < pixels).any()


@pytest.mark.slow
@pytest.mark.parametrize("eps", EPS)
def test_compiled_steps_are_the_same(eps: float) -> None:
    assert torch.equal(step(torch.compile(signed_step, dynamic=True), eps), step(signed_step, eps))
