from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.nn import functional as F

from holdfast.data import Augment, RaggedImages, augment, centre_crop
from holdfast.data.augment import RandomResizedCrop, by_products
from holdfast.errors import DataError, RecipeError
from holdfast.view import Fit, View

NAMES = augment.names()


def squares(n: int = 6, side: int = 20, seed: int = 0) -> Tensor:
    return torch.randint(0, 256, (n, 3, side, side), generator=torch.manual_seed(seed), dtype=torch.uint8)


def oblong(n: int = 6, seed: int = 0) -> RaggedImages:
    """Images of several shapes, none less than 20 pixels wide or high."""
    rng = np.random.default_rng(seed)
    return RaggedImages.of([rng.integers(0, 256, (20 + i % 3, 20 + 9 * (i % 4), 3), np.uint8) for i in range(n)])


def draw(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def test_names() -> None:
    assert NAMES == ["none", "random-crop", "random-resized-crop"]


@pytest.mark.parametrize("name", NAMES)
def test_contract(name: str) -> None:
    images = oblong()
    before = images.pixels.clone()
    view = augment.build(name, size=16)(images, draw())
    assert view.shape == (6, 3, 16, 16)
    assert view.dtype == torch.float32
    assert view.is_contiguous(memory_format=torch.channels_last)
    assert view.min() >= 0
    assert view.max() <= 1
    assert torch.equal(images.pixels, before)
    assert torch.equal(view, augment.build(name, size=16)(images, draw()))


@pytest.mark.parametrize("name", NAMES)
def test_a_view_depends_on_no_other_image(name: str) -> None:
    images, other = oblong().arrays(), oblong(seed=1).arrays()
    changed = RaggedImages.of([*images[:2], *other[2:][::-1]])
    one, two = (augment.build(name, size=16)(x, draw()) for x in (RaggedImages.of(images), changed))
    assert torch.equal(one[:2], two[:2])
    assert not torch.equal(one[2:], two[2:])


@pytest.mark.parametrize("name", ["random-crop", "random-resized-crop"])
def test_images_have_parameters_of_their_own_and_seeds_matter(name: str) -> None:
    copies = RaggedImages.of([oblong(2).arrays()[1]] * 8)
    view = augment.build(name, size=12)(copies, draw())
    assert len({tuple(v.flatten().tolist()) for v in view}) > 4
    assert not torch.equal(view, augment.build(name, size=12)(copies, draw(1)))


@pytest.mark.parametrize("name", NAMES)
def test_sizes_are_filled_in_once(name: str) -> None:
    assert augment.build(name).fitted(View(16)).size == 16
    assert augment.build(name, size=8).fitted(View(16)).size == 8
    with pytest.raises(RecipeError, match=r"model\.canvas"):
        augment.build(name, size=18).fitted(View(16))
    with pytest.raises(RecipeError, match="size"):
        augment.build(name)(oblong(), draw())


@given(st.integers(1, 20), st.integers(0, 4))
@settings(deadline=None, max_examples=30)
def test_squashed_images_are_cut_where_they_always_were(size: int, extra: int) -> None:
    images = squares(2, size + extra)
    first = extra // 2
    expected = images[:, :, first : first + size, first : first + size].float() / 255
    found = centre_crop(RaggedImages.of(images), View(size, size + extra, fit="squash"))
    assert torch.equal(found, expected)


def test_identity_is_exact() -> None:
    images = squares()
    exact, stored = images.float() / 255, RaggedImages.of(images)
    assert torch.equal(centre_crop(stored, View(20)), exact)
    assert torch.equal(augment.build("random-crop", size=20, flip=False)(stored, draw()), exact)
    whole = RandomResizedCrop(size=20, scale=(1.0, 1.0), ratio=(1.0, 1.0), flip=False)
    torch.testing.assert_close(whole(stored, draw()), exact, rtol=0, atol=2e-6)


def test_picking_equals_slicing_one_by_one() -> None:
    images = oblong()
    rows, columns = torch.tensor([3, 0, 5]), torch.tensor([7, 8, 1, 1])
    found = images.pick(rows.expand(6, -1), columns.expand(6, -1))
    for image, array in zip(found, images.arrays(), strict=True):
        assert np.array_equal(image.permute(1, 2, 0), array[rows][:, columns])


def test_random_crop_reaches_every_place_and_pads_with_black() -> None:
    images = RaggedImages.of(torch.arange(1, 10, dtype=torch.uint8).view(1, 1, 3, 3).expand(600, 3, 3, 3))
    view = augment.build("random-crop", size=2, flip=False)(images, draw())
    places = (view[:, 0, 0, 0] * 255).round().long().bincount()
    assert places.nonzero().flatten().tolist() == [1, 2, 4, 5]
    assert places[[1, 2, 4, 5]].min() > 100
    padded = augment.build("random-crop", size=3, padding=1, flip=False)(images, draw())
    corners = (padded[:, 0] * 255).round().long()
    assert set(corners[:, 1, 1].tolist()) == set(range(1, 10))
    shifted = corners[corners[:, 1, 1] == 1][0]  # the image's first pixel in the middle: black above and to the left
    assert shifted.tolist() == [[0, 0, 0], [0, 1, 2], [0, 4, 5]]


def test_random_crop_reaches_both_ends_of_a_long_image() -> None:
    images = RaggedImages.of([np.tile(np.arange(40, dtype=np.uint8)[None, :, None], (10, 1, 3))] * 400)
    first = (augment.build("random-crop", size=10, flip=False)(images, draw())[:, 0, 0, 0] * 255).round().long()
    assert (int(first.min()), int(first.max())) == (0, 30)


def test_flips_mirror_half_of_the_images() -> None:
    images = squares(1).expand(400, -1, -1, -1)
    view = augment.build("random-crop", size=20)(RaggedImages.of(images), draw())
    exact = images[0].float() / 255
    mirrored = sum(torch.equal(v, exact.flip(-1)) for v in view)
    assert mirrored + sum(torch.equal(v, exact) for v in view) == 400
    assert 150 < mirrored < 250


@given(st.integers(0, 50), st.sampled_from([8, 13, 20, 31]))
@settings(deadline=None, max_examples=25)
def test_both_ways_of_resampling_are_crop_and_interpolate(seed: int, size: int) -> None:
    images, augmentation = oblong(5, seed), RandomResizedCrop(size=size, scale=(0.01, 1.0))
    numbers = augmentation.draw(5, draw(seed))
    windows, mirrored = augmentation.windows(images.heights, images.widths, numbers), numbers[:, -1] < 0.5
    for view in (
        by_products(images, size, windows, mirrored, images.longest),
        augmentation.view(images, numbers),
    ):
        for row, (top, left, height, width) in enumerate(windows.long().tolist()):
            crop = torch.from_numpy(images.arrays()[row])[top : top + height, left : left + width].permute(2, 0, 1)
            expected = F.interpolate(crop[None].float() / 255, (size, size), mode="bilinear", antialias=True)[0]
            expected = expected.flip(-1) if mirrored[row] else expected
            torch.testing.assert_close(view[row], expected, rtol=0, atol=1e-5)


@given(
    st.integers(0, 100),
    st.floats(0.05, 1),
    st.floats(0.05, 1),
    st.floats(0.2, 5),
    st.floats(0.2, 5),
    st.integers(4, 64),
    st.integers(4, 64),
)
@settings(deadline=None)
def test_windows_lie_inside_with_the_asked_area_and_ratio(
    seed: int, s1: float, s2: float, r1: float, r2: float, high: int, wide: int
) -> None:
    ratios = min(r1, r2), max(r1, r2)
    augmentation = RandomResizedCrop(size=8, scale=(min(s1, s2), max(s1, s2)), ratio=ratios)
    heights, widths = torch.full((50,), high), torch.full((50,), wide)
    numbers = augmentation.draw(50, draw(seed))
    top, left, height, width = augmentation.windows(heights, widths, numbers).unbind(1)
    for first, extent, side in ((top, height, high), (left, width, wide)):
        assert (extent >= 1).all()
        assert (first >= 0).all()
        assert (first + extent <= side).all()
        assert torch.equal(extent, extent.round())
    images = RaggedImages.of([np.zeros((high, wide, 3), np.uint8)])
    assert max(float(height.max()), float(width.max())) <= augmentation._longest(images)
    spare = (height == high) | (width == wide)
    area, ratio = height * width, width / height
    slack = (height + width) / 2 + 0.25  # edges are rounded to whole pixels
    assert (spare | (area >= min(s1, s2) * high * wide - slack)).all()
    assert (spare | (area <= max(s1, s2) * high * wide + slack)).all()
    loose = (1 + 0.5 / height) * (1 + 0.5 / width) / ((1 - 0.5 / height) * (1 - 0.5 / width)) + 1e-4
    assert (spare | (ratio >= ratios[0] / loose)).all()
    assert (spare | (ratio <= ratios[1] * loose)).all()


def test_windows_spread_over_areas_and_places() -> None:
    augmentation, side = RandomResizedCrop(scale=(0.2, 1.0)), torch.full((4000,), 256)
    numbers = augmentation.draw(4000, draw())
    top, left, height, width = augmentation.windows(side, side, numbers).unbind(1)
    area = height * width / 256**2
    assert abs(float((area < 0.5).float().mean()) - 0.375 / 0.93) < 0.06  # uniform, less the few that cannot fit
    small = (height < 150) & (width < 150)
    centre = (top + height / 2)[small], (left + width / 2)[small]
    assert all(abs(float(c.mean()) - 128) < 4 for c in centre)
    assert all(float(c.std()) > 25 for c in centre)


def test_impossible_settings_are_refused() -> None:
    with pytest.raises(DataError, match="does not fit"):
        centre_crop(oblong(), View(21))
    with pytest.raises(DataError, match="does not fit"):
        augment.build("random-crop", size=23, padding=1)(oblong(), draw())
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
        "canvas": None,
        "scale": (0.5, 1.0),
        "ratio": (0.75, 4 / 3),
        "flip": True,
    }


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
@pytest.mark.parametrize("name", NAMES)
def test_a_cpu_generator_gives_the_same_views_on_the_device(name: str) -> None:
    augmentation, images = augment.build(name, size=16), oblong()
    there = augmentation(images.packed(torch.device("cuda")), draw())
    torch.testing.assert_close(there.cpu(), augmentation(images, draw()), rtol=0, atol=0.5 / 255)


@pytest.mark.parametrize("canvas", [32, 33, 34, 35, 36])
@pytest.mark.parametrize("fit", ["crop", "squash", "pad"])
def test_no_augmentation_cuts_where_evaluation_does(fit: Fit, canvas: int) -> None:
    images, view = RaggedImages.of(squares(2, canvas)), View(32, canvas, fit)
    assert torch.equal(augment.build("none").fitted(view)(images, draw()), centre_crop(images, view))


def test_what_does_not_fit_is_known_without_asking_the_device() -> None:
    images = RaggedImages.of([np.zeros((20, 30, 3), np.uint8), np.zeros((25, 22, 3), np.uint8)])
    assert (images.shortest, images.shorter, images.longest) == (20, 22, 30)
    elsewhere = dataclasses.replace(images, heights=images.heights.to("meta"), widths=images.widths.to("meta"))
    with pytest.raises(DataError, match="21 px does not fit"):
        elsewhere.refuse_smaller(21)
