"""Everyday damage to images."""

from __future__ import annotations

import colorsys
import io

import numpy as np
import pytest
import torch
from PIL import Image
from torch import Tensor
from torch.nn import functional as F

from holdfast.audit.damage import DAMAGES, FLIPS, blur, damaged
from holdfast.audit.jpeg import jpeg

GROWING = sorted(set(DAMAGES) - {"flip", "saturation"})


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def photographs(size: int, count: int = 3, seed: int = 0) -> Tensor:
    """Smooth colours with some detail, as files hold them."""
    rough, fine = (torch.rand(count, 3, side, side, generator=seeded(seed + side)) for side in (4, 12))
    coarse, detail = (F.interpolate(x, size=(size, size), mode="bicubic") for x in (rough, fine))
    return ((0.7 * coarse + 0.3 * detail).clamp(0, 1) * 255).round() / 255


def at(kind: str, images: Tensor, strength: int, seed: int = 0) -> Tensor:
    (found,) = damaged(kind, images, seeded(seed), [strength])
    return found


@pytest.mark.parametrize("size", [28, 32, 33, 112])
@pytest.mark.parametrize("quality", [7, 25, 58, 80, 95])
def test_jpeg_is_that_of_pillow(size: int, quality: int) -> None:
    images = photographs(size)
    files = []
    for image in images:
        file = io.BytesIO()
        Image.fromarray((image * 255).round().byte().permute(1, 2, 0).numpy()).save(file, "JPEG", quality=quality)
        files.append(torch.from_numpy(np.array(Image.open(file))).permute(2, 0, 1) / 255)
    theirs, ours = torch.stack(files), jpeg(images, quality)
    levels, effect = 255 * (ours - theirs).abs(), 255 * (theirs - images).abs()
    assert levels.mean() < 1
    assert levels.mean() < 0.25 * effect.mean()
    assert (levels > 3).float().mean() < 0.08


def test_strengths_are_those_of_the_benchmarks_at_their_sizes() -> None:
    assert DAMAGES["jpeg"].at(224) == pytest.approx((25, 18, 15, 10, 7))
    assert DAMAGES["jpeg"].at(32) == pytest.approx((80, 65, 58, 50, 40))
    assert DAMAGES["noise"].at(224)[4] == pytest.approx(0.38)
    small, between, large, larger = (DAMAGES["blur"].at(size) for size in (32, 96, 224, 448))
    assert all(np.diff(values).min() > 0 for values in zip(small, between, large, larger, strict=True))
    assert DAMAGES["blur"].at(16) == small
    assert DAMAGES["contrast"].at(32) == DAMAGES["contrast"].at(224) == (0.4, 0.3, 0.2, 0.1, 0.05)


@pytest.mark.parametrize("kind", DAMAGES)
@pytest.mark.parametrize("size", [16, 32, 75])
def test_every_kind_gives_images_from_its_seed(kind: str, size: int) -> None:
    images = photographs(size)
    first, again, other = ([*damaged(kind, images, seeded(seed))] for seed in (1, 1, 2))
    assert len(first) == 5
    for one, same in zip(first, again, strict=True):
        assert one.shape == images.shape
        assert one.dtype == images.dtype
        assert one.min() >= 0
        assert one.max() <= 1
        assert torch.equal(one, same)
        assert not torch.equal(one, images)
    drawn = any(not torch.equal(one, another) for one, another in zip(first, other, strict=True))
    assert drawn == (kind in ("noise", "crop", "padding", "rotation", "overlay"))
    # What happens to an image does not depend on the rest of the batch.
    swapped = torch.cat([images[:1], images[1:].flip(0)])
    torch.testing.assert_close(at(kind, swapped, 3, seed=1)[0], first[2][0])


@pytest.mark.parametrize("kind", GROWING)
@pytest.mark.parametrize("size", [32, 112])
def test_damage_grows_with_strength(kind: str, size: int) -> None:
    images = photographs(size, 12)
    changes = [float((found - images).abs().mean()) for found in damaged(kind, images, seeded())]
    assert changes[0] > 0
    assert changes[4] > changes[2] > changes[0]


@pytest.mark.parametrize("kind", [kind for kind, damage in DAMAGES.items() if not damage.small])
def test_lengths_are_fractions_of_the_image(kind: str) -> None:
    """Damage to a large image, reduced, is damage to the reduced image."""
    large = photographs(128, 8)
    small = F.interpolate(large, size=(32, 32), mode="area")
    reduced = F.interpolate(at(kind, large, 3), size=(32, 32), mode="area")
    there, here = (reduced - small).abs().mean(), (reduced - at(kind, small, 3)).abs().mean()
    assert here < (0.5 if kind == "overlay" else 0.3) * there  # a letter of four pixels is hardly one


def test_colours_as_in_hsv() -> None:
    images = photographs(8, 1)
    raised, gaudy = at("brightness", images, 4), at("saturation", images, 4)
    pixels = zip(*(x[0].flatten(1).T.tolist() for x in (images, raised, gaudy)), strict=True)
    for pixel, brighter, more in pixels:
        hue, saturation, value = colorsys.rgb_to_hsv(*pixel)
        assert brighter == pytest.approx(colorsys.hsv_to_rgb(hue, saturation, min(1.0, value + 0.4)), abs=1e-5)
        assert more == pytest.approx(colorsys.hsv_to_rgb(hue, min(1.0, 5 * saturation + 0.1), value), abs=1e-5)
    black = torch.zeros(1, 3, 4, 4)
    assert torch.equal(at("brightness", black, 1), torch.full_like(black, 0.1))
    assert torch.equal(at("saturation", black + 0.3, 5), black + 0.3)


def test_a_blur_is_a_gaussian_of_its_deviation() -> None:
    point = torch.zeros(1, 1, 65, 65)
    point[..., 32, 32] = 1
    spread = blur(point, 3.0, point)[0, 0]
    away = torch.arange(65) - 32.0
    assert float(spread.sum()) == pytest.approx(1, abs=1e-5)
    assert float((spread.sum(0) * away**2).sum()) ** 0.5 == pytest.approx(3, rel=0.01)
    flat = torch.full((1, 3, 9, 9), 0.4)
    torch.testing.assert_close(blur(flat, 6.0, flat), flat)


def test_downscaling_averages_and_enlarges() -> None:
    image = photographs(224, 1)
    enlarged = F.interpolate(F.avg_pool2d(image, 2), size=(224, 224), mode="bilinear", align_corners=False)
    torch.testing.assert_close(at("downscaling", image, 2), enlarged, atol=1e-5, rtol=0)
    flat = torch.full((1, 3, 30, 30), 0.7)
    torch.testing.assert_close(at("downscaling", flat, 3), flat)


def test_geometry() -> None:
    images = photographs(32)
    half = at("padding", images, 5)
    assert all(len(edge.unique()) == 1 and edge.unique().item() in (0, 1) for edge in half[:, :, 0])
    torch.testing.assert_close(half[:, :, 8:24, 8:24], F.avg_pool2d(images, 2), atol=1e-5, rtol=0)
    ramp = torch.linspace(0, 1, 64).expand(6, 3, 64, 64)
    part = at("crop", ramp, 5)
    assert (part.amax((1, 2, 3)) - part.amin((1, 2, 3))).allclose(torch.tensor(0.5), atol=0.03)
    ways = dict(zip(FLIPS, damaged("flip", images, None), strict=True))
    assert torch.equal(ways["mirrored"], images.flip(3))
    assert torch.equal(ways["top to bottom"], images.flip(2))
    assert torch.equal(ways["a half turn"], images.flip(2, 3))
    assert torch.equal(ways["a quarter turn to the left"][:, :, -1, 0], images[:, :, 0, 0])
