from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.nn import functional as F

from holdfast.data import Augment, augment, centre_crop
from holdfast.data.augment.base import crop_at
from holdfast.data.augment.random_resized_crop import RandomResizedCrop, resample
from holdfast.errors import DataError, RecipeError

NAMES = augment.names()


def batch(n: int = 6, side: int = 20, seed: int = 0) -> Tensor:
    return torch.randint(0, 256, (n, 3, side, side), generator=torch.manual_seed(seed), dtype=torch.uint8)


def draw(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def test_names() -> None:
    assert NAMES == ["none", "random-crop", "random-resized-crop"]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("memory_format", [torch.contiguous_format, torch.channels_last])
def test_contract(name: str, memory_format: torch.memory_format) -> None:
    images = batch().to(memory_format=memory_format)
    before = images.clone()
    view = augment.build(name, size=16)(images, draw())
    assert view.shape == (6, 3, 16, 16)
    assert view.dtype == torch.float32
    assert view.is_contiguous(memory_format=torch.channels_last)
    assert view.min() >= 0
    assert view.max() <= 1
    assert torch.equal(images, before)
    assert torch.equal(view, augment.build(name, size=16)(images, draw()))


@pytest.mark.parametrize("name", NAMES)
def test_a_view_depends_on_no_other_image(name: str) -> None:
    images, changed = batch(), batch()
    changed[2:] = 0
    one, other = (augment.build(name, size=16)(x, draw()) for x in (images, changed))
    assert torch.equal(one[:2], other[:2])
    assert not torch.equal(one[2:], other[2:])


@pytest.mark.parametrize("name", ["random-crop", "random-resized-crop"])
def test_images_have_parameters_of_their_own_and_seeds_matter(name: str) -> None:
    copies = batch(1).expand(8, -1, -1, -1)
    view = augment.build(name, size=12)(copies, draw())
    assert len({tuple(v.flatten().tolist()) for v in view}) > 4
    assert not torch.equal(view, augment.build(name, size=12)(copies, draw(1)))


@pytest.mark.parametrize("name", NAMES)
def test_sizes_are_filled_in_once(name: str) -> None:
    assert augment.build(name).sized(16).size == 16
    assert augment.build(name, size=8).sized(16).size == 8
    assert augment.build(name)(batch(), draw()).shape[-1] == 20


@given(st.integers(1, 20), st.integers(0, 4))
@settings(deadline=None, max_examples=30)
def test_centre_crop_is_the_middle(size: int, extra: int) -> None:
    images = batch(2, size + extra)
    first = extra // 2
    expected = images[:, :, first : first + size, first : first + size].float() / 255
    assert torch.equal(centre_crop(images, size), expected)


def test_identity_is_exact() -> None:
    images = batch()
    exact = images.float() / 255
    assert torch.equal(centre_crop(images, 20), exact)
    assert torch.equal(augment.build("random-crop", size=20, flip=False)(images, draw()), exact)
    whole = RandomResizedCrop(size=20, scale=(1.0, 1.0), ratio=(1.0, 1.0), flip=False)
    torch.testing.assert_close(whole(images, draw()), exact, rtol=0, atol=2e-6)


def test_crop_at_equals_slicing_one_by_one() -> None:
    images = batch()
    top, left = torch.tensor([0, 1, 5, 8, 3, 2]), torch.tensor([8, 0, 4, 8, 1, 7])
    flipped = torch.tensor([True, False, True, False, False, True])
    view = crop_at(images, 12, top, left, flipped)
    for i in range(6):
        crop = images[i, :, top[i] : top[i] + 12, left[i] : left[i] + 12]
        assert torch.equal(view[i], (crop.flip(-1) if flipped[i] else crop).float() / 255)


def test_random_crop_reaches_every_place_and_pads_with_black() -> None:
    images = torch.arange(1, 10, dtype=torch.uint8).view(1, 1, 3, 3).expand(600, 3, 3, 3)
    view = augment.build("random-crop", size=2, flip=False)(images, draw())
    places = (view[:, 0, 0, 0] * 255).round().long().bincount()
    assert places.nonzero().flatten().tolist() == [1, 2, 4, 5]
    assert places[[1, 2, 4, 5]].min() > 100
    padded = augment.build("random-crop", size=3, padding=1, flip=False)(images, draw())
    corners = (padded[:, 0] * 255).round().long()
    assert set(corners[:, 1, 1].tolist()) == set(range(1, 10))
    shifted = corners[corners[:, 1, 1] == 1][0]  # the image's first pixel in the middle: black above and to the left
    assert shifted.tolist() == [[0, 0, 0], [0, 1, 2], [0, 4, 5]]


def test_flips_mirror_half_of_the_images() -> None:
    images = batch(1).expand(400, -1, -1, -1)
    view = augment.build("random-crop", size=20)(images, draw())
    exact = images[0].float() / 255
    mirrored = sum(torch.equal(v, exact.flip(-1)) for v in view)
    assert mirrored + sum(torch.equal(v, exact) for v in view) == 400
    assert 150 < mirrored < 250


@given(st.integers(0, 50), st.sampled_from([8, 13, 20, 31]))
@settings(deadline=None, max_examples=25)
def test_resampling_equals_crop_and_interpolate(seed: int, size: int) -> None:
    images = batch(5, seed=seed)
    windows = RandomResizedCrop(scale=(0.01, 1.0)).windows(5, 20, draw(seed))
    flipped = torch.rand(5, generator=draw(seed)) < 0.5
    view = resample(images, size, windows, flipped)
    for i, (top, left, height, width) in enumerate(windows.long().tolist()):
        crop = images[i : i + 1, :, top : top + height, left : left + width].float() / 255
        expected = F.interpolate(crop, (size, size), mode="bilinear", align_corners=False)[0]
        torch.testing.assert_close(view[i], expected.flip(-1) if flipped[i] else expected, rtol=0, atol=1e-5)


@given(
    st.integers(0, 100),
    st.floats(0.05, 1),
    st.floats(0.05, 1),
    st.floats(0.2, 5),
    st.floats(0.2, 5),
    st.integers(4, 64),
)
@settings(deadline=None)
def test_windows_lie_inside_with_the_asked_area_and_ratio(
    seed: int, s1: float, s2: float, r1: float, r2: float, side: int
) -> None:
    augmentation = RandomResizedCrop(scale=(min(s1, s2), max(s1, s2)), ratio=(min(r1, r2), max(r1, r2)))
    top, left, height, width = augmentation.windows(50, side, draw(seed)).unbind(1)
    for first, extent in ((top, height), (left, width)):
        assert (extent >= 1).all()
        assert (first >= 0).all()
        assert (first + extent <= side).all()
        assert torch.equal(extent, extent.round())
    whole = (height == side) & (width == side)
    area, ratio = height * width, width / height
    slack = (height + width) / 2 + 0.25  # edges are rounded to whole pixels
    assert (whole | (area >= min(s1, s2) * side**2 - slack)).all()
    assert (whole | (area <= max(s1, s2) * side**2 + slack)).all()
    loose = (1 + 0.5 / height) * (1 + 0.5 / width) / ((1 - 0.5 / height) * (1 - 0.5 / width)) + 1e-4
    assert (whole | (ratio >= min(r1, r2) / loose)).all()
    assert (whole | (ratio <= max(r1, r2) * loose)).all()


def test_windows_spread_over_areas_and_places() -> None:
    top, left, height, width = RandomResizedCrop(scale=(0.2, 1.0)).windows(4000, 256, draw()).unbind(1)
    area = height * width / 256**2
    assert abs(float((area < 0.5).float().mean()) - 0.375 / 0.93) < 0.06  # uniform, less the few that cannot fit
    small = (height < 150) & (width < 150)
    centre = (top + height / 2)[small], (left + width / 2)[small]
    assert all(abs(float(c.mean()) - 128) < 4 for c in centre)
    assert all(float(c.std()) > 25 for c in centre)


def test_impossible_settings_are_refused() -> None:
    with pytest.raises(DataError, match="does not fit"):
        centre_crop(batch(), 21)
    with pytest.raises(DataError, match="does not fit"):
        augment.build("random-crop", size=23, padding=1)(batch(), draw())
    for arguments in ({"scale": (0.0, 1.0)}, {"scale": (0.8, 0.2)}, {"ratio": (2.0, 1.0)}, {"size": 0}):
        with pytest.raises(RecipeError):
            augment.build("random-resized-crop", **arguments)
    with pytest.raises(RecipeError, match="negative"):
        augment.build("random-crop", padding=-1)


def test_it_is_a_recipe_family() -> None:
    from holdfast import config

    plain = config.resolve(Augment, {"name": "random-resized-crop", "size": 224, "scale": [0.5, 1]})
    assert plain == {
        "name": "random-resized-crop",
        "size": 224,
        "scale": (0.5, 1.0),
        "ratio": (0.75, 4 / 3),
        "flip": True,
    }


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
@pytest.mark.parametrize("name", NAMES)
def test_a_cpu_generator_gives_the_same_views_on_the_device(name: str) -> None:
    augmentation = augment.build(name, size=16)
    there = augmentation(batch().cuda(), draw())
    torch.testing.assert_close(there.cpu(), augmentation(batch(), draw()), rtol=0, atol=1e-5)
