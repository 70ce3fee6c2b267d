from __future__ import annotations

import numpy as np
import pytest
import torch
from PIL import Image
from torch.nn import functional as F

from holdfast.data import resampling
from holdfast.data.resampling import Window, part, view_windows
from holdfast.errors import DataError
from holdfast.view import Interpolation

WAYS = [
    pytest.param(True, marks=pytest.mark.skipif(not resampling.compiled, reason="C was not compiled"), id="compiled"),
    pytest.param(False, id="plain"),
]


@pytest.fixture(params=WAYS, autouse=True)
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if not request.param:
        monkeypatch.setattr(resampling, "compiled", None)


def photograph(height: int, width: int, seed: int = 0) -> Image.Image:
    return Image.fromarray(np.random.default_rng(seed).integers(0, 256, (height, width, 3), np.uint8))


@pytest.mark.parametrize("interpolation", ["bilinear", "bicubic", "lanczos", "nearest"])
@pytest.mark.parametrize(("size", "canvas"), [((61, 83), (32, 43)), ((20, 30), (32, 48)), ((200, 7), (91, 3))])
def test_a_window_is_a_window_of_what_pillow_resizes(
    interpolation: Interpolation, size: tuple[int, int], canvas: tuple[int, int]
) -> None:
    image = photograph(*size)
    whole = np.array(image.resize(canvas[::-1], Image.Resampling[interpolation.upper()]))
    rng = np.random.default_rng(1)
    windows: list[Window] = [(0, 0, *canvas)]
    for _ in range(5):
        height, width = int(rng.integers(1, canvas[0] + 1)), int(rng.integers(1, canvas[1] + 1))
        top, left = int(rng.integers(0, canvas[0] - height + 1)), int(rng.integers(0, canvas[1] - width + 1))
        windows.append((top, left, height, width))
    for top, left, height, width in windows:
        found = part(image, canvas, (top, left, height, width), interpolation)
        assert np.array_equal(found, whole[top : top + height, left : left + width])


def test_an_image_at_its_canvas_is_only_cropped() -> None:
    image = photograph(9, 12)
    assert np.array_equal(part(image, (9, 12), (2, 3, 4, 5), "lanczos"), np.array(image)[2:6, 3:8])


def test_a_window_outside_is_refused() -> None:
    for window in ((0, 0, 9, 8), (-1, 0, 4, 4), (5, 0, 4, 4), (0, 0, 0, 4)):
        with pytest.raises(DataError, match="does not fit"):
            part(photograph(20, 20), (8, 8), window, "bilinear")


def test_views_are_crop_interpolate_and_mirror() -> None:
    images = [np.array(photograph(40 + i, 50, seed=i)) for i in range(4)]
    windows: list[Window] = [(3, 4, 30, 33), (0, 0, 40, 50), (39, 10, 1, 2), (2, 1, 7, 9)]
    mirrored = [False, True, True, False]
    found = torch.empty((4, 3, 16, 16), memory_format=torch.channels_last)
    view_windows(images, windows, mirrored, found)
    for view, image, (top, left, height, width), mirror in zip(found, images, windows, mirrored, strict=True):
        window = torch.from_numpy(image)[top : top + height, left : left + width].permute(2, 0, 1)[None].float()
        expected = F.interpolate(window, (16, 16), mode="bilinear", antialias=True)[0] / 255
        torch.testing.assert_close(view, expected.flip(2) if mirror else expected, rtol=0, atol=1e-5)


def test_the_c_file_reads_and_writes_nothing_outside() -> None:
    if not resampling.compiled:
        pytest.skip("C was not compiled, or is not looked at")
    pixels, out = np.zeros((4, 5, 3), np.uint8), np.zeros((2, 2, 3), np.uint8)
    first, weights = np.array([0, 3], np.int32), np.full((2, 2), 1 << 21, np.int32)
    fine = [pixels, 0, 15, 4, 5, first, weights, 2, 2, first - first, weights, 2, 2, out]
    resampling.compiled.shrink(*fine)
    for position, wrong in ((1, 1), (2, 16), (3, 5), (5, first + 1), (5, first - 1), (6, weights[1:]), (8, 3)):
        with pytest.raises(ValueError, match="do not fit"):
            resampling.compiled.shrink(*fine[:position], wrong, *fine[position + 1 :])
