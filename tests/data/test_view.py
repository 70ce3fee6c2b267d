"""Geometry against torchvision's own transforms, and what must stay round."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image, ImageDraw
from torch import Tensor

from holdfast.data import ImageStore, ImageTable, RaggedImages, centre_crop
from holdfast.data.augment import RandomResizedCrop
from holdfast.data.sources import FileSource, resized
from holdfast.data.store import Cache
from holdfast.errors import RecipeError
from holdfast.models import Embedder
from holdfast.models.names import ensure_torchvision
from holdfast.view import Fit, View

ensure_torchvision()
from torchvision.transforms import v2  # noqa: E402
from torchvision.transforms.v2 import functional as peer  # noqa: E402

CLOSE = 1.001 / 255
"""torchvision rounds to whole grey levels between its two steps and after them; this does not."""


def photograph(height: int, width: int, seed: int = 0) -> Image.Image:
    """Smooth colours with sharp edges."""
    rng = np.random.default_rng(seed)
    coarse = Image.fromarray(rng.integers(0, 256, (5, 7, 3), np.uint8))
    image = coarse.resize((width, height), Image.Resampling.BICUBIC)
    ImageDraw.Draw(image).rectangle((width // 4, height // 4, width // 2, height // 2), fill="black")
    return image


def bytes_of(image: Image.Image) -> Tensor:
    return peer.pil_to_tensor(image).float() / 255


@given(st.integers(20, 130), st.integers(20, 130), st.integers(8, 40), st.integers(0, 12))
@settings(deadline=None, max_examples=40)
def test_evaluation_is_torchvisions(height: int, width: int, size: int, extra: int) -> None:
    image, view = photograph(height, width), View(size, size + extra)
    expected = v2.Compose([v2.Resize(size + extra), v2.CenterCrop(size)])(image)
    found = centre_crop(RaggedImages.of([resized(image, view)]), view)[0]
    torch.testing.assert_close(found, bytes_of(expected), rtol=0, atol=CLOSE)


@pytest.mark.parametrize(("name", "mode"), [("bicubic", "BICUBIC"), ("lanczos", "LANCZOS"), ("nearest", "NEAREST")])
def test_other_interpolations_are_torchvisions(name: str, mode: str) -> None:
    image, view = photograph(90, 61), View(24, 30, interpolation=name)  # type: ignore[arg-type]
    resize = v2.Resize(30, interpolation=v2.InterpolationMode[mode])
    expected = v2.Compose([resize, v2.CenterCrop(24)])(image)
    found = centre_crop(RaggedImages.of([resized(image, view)]), view)[0]
    torch.testing.assert_close(found, bytes_of(expected), rtol=0, atol=CLOSE)


def test_squashing_and_bars() -> None:
    image = photograph(40, 90)
    squashed = centre_crop(RaggedImages.of([resized(image, View(28, 32, "squash"))]), View(28, 32, "squash"))[0]
    expected = v2.Compose([v2.Resize((32, 32)), v2.CenterCrop(28)])(image)
    torch.testing.assert_close(squashed, bytes_of(expected), rtol=0, atol=CLOSE)
    padded = bytes_of(Image.fromarray(resized(image, View(36, fit="pad"))))
    expected = v2.Compose([v2.Resize(None, max_size=36), v2.CenterCrop(36)])(image)
    torch.testing.assert_close(padded, bytes_of(expected), rtol=0, atol=CLOSE)
    assert padded[:, :10].max() == 0


@given(st.integers(0, 200), st.integers(16, 90), st.integers(16, 90), st.sampled_from([12, 24, 40]))
@settings(deadline=None, max_examples=40)
def test_training_crops_are_torchvisions(seed: int, height: int, width: int, size: int) -> None:
    image, augmentation = photograph(height, width), RandomResizedCrop(size=size)
    stored = RaggedImages.of([np.asarray(image)])
    numbers = augmentation.draw(1, torch.Generator().manual_seed(seed))
    top, left, high, wide = augmentation.windows(stored.heights, stored.widths, numbers)[0].long().tolist()
    expected = peer.resized_crop(image, top, left, high, wide, [size, size], antialias=True)
    expected = peer.horizontal_flip(expected) if numbers[0, -1] < 0.5 else expected
    torch.testing.assert_close(augmentation.view(stored, numbers)[0], bytes_of(expected), rtol=0, atol=CLOSE)


@pytest.mark.parametrize("cache", ["memory", "none", "disk"])
def test_training_crops_may_be_cut_from_the_files(
    cache: Cache, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOLDFAST_CACHE", str(tmp_path / "cache"))
    sizes, paths = [(90, 140), (37, 50), (300, 200)], [tmp_path / f"{number}.png" for number in range(3)]
    for number, (size, path) in enumerate(zip(sizes, paths, strict=True)):
        photograph(*size, seed=number).save(path)
    ids = [path.name for path in paths]
    table = ImageTable.of(FileSource(paths), classes=ids, splits=["train"] * 3, ids=ids, name="photographs")
    view, augmentation = View(32, 40), RandomResizedCrop(size=32, canvas=150)
    store = ImageStore(table, augmentation.stored(view), "cpu", cache)
    assert [image.shape[:2] for image in store.get(torch.arange(3)).arrays()] == [(90, 140), (37, 50), (225, 150)]
    for row, path in enumerate(paths[:2]):
        numbers = augmentation.draw(1, torch.Generator().manual_seed(row))
        size = torch.tensor([[side] for side in sizes[row]])
        window = augmentation.windows(*size, numbers)[0].long().tolist()
        expected = peer.resized_crop(Image.open(path), *window, [32, 32], antialias=True)
        expected = peer.horizontal_flip(expected) if numbers[0, -1] < 0.5 else expected
        found = store.views(torch.tensor([row]), augmentation, numbers)[0]
        torch.testing.assert_close(found, bytes_of(expected), rtol=0, atol=CLOSE)


def test_room_is_made_for_photographs_as_they_are(tmp_path: Path) -> None:
    paths = [tmp_path / f"{number}.png" for number in range(3)]
    for number, path in enumerate(paths):
        photograph(45, 60, seed=number).save(path)
    ids = [path.name for path in paths]
    table = ImageTable.of(FileSource(paths), classes=ids, splits=["train"] * 3, ids=ids, name="photographs")
    assert table.sizes() == [(60, 45)] * 3
    store = ImageStore(table, RandomResizedCrop(canvas=640).stored(View(32, 40)), "cpu", "memory")
    assert store.get(torch.arange(3)).pixels.untyped_storage().nbytes() == 3 * 3 * 45 * 60


def test_crops_may_be_larger_than_what_evaluation_sees_where_photographs_are() -> None:
    assert RandomResizedCrop(size=48, canvas=640).fitted(View(32, 40)).size == 48
    with pytest.raises(RecipeError, match=r"raise model\.canvas"):
        RandomResizedCrop(size=48).fitted(View(32, 40))


@pytest.mark.parametrize("fit", ["squash", "pad"])
def test_photographs_that_are_squashed_or_padded_are_stored_so(fit: Fit) -> None:
    with pytest.raises(RecipeError, match=f"augment.canvas needs model.fit: crop, not {fit}"):
        RandomResizedCrop(canvas=640).stored(View(32, 40, fit))


def test_crops_are_not_cut_from_less_than_evaluation_sees() -> None:
    with pytest.raises(RecipeError, match=r"augment.canvas \(30\) must not be smaller than model.canvas \(40\)"):
        RandomResizedCrop(canvas=30).stored(View(32, 40))


def test_windows_are_spread_as_torchvisions_are() -> None:
    image, augmentation = photograph(60, 100), RandomResizedCrop(size=8)
    heights, widths = torch.full((3000,), 60), torch.full((3000,), 100)
    numbers = augmentation.draw(3000, torch.Generator().manual_seed(0))
    ours = augmentation.windows(heights, widths, numbers).double()
    torch.manual_seed(0)
    cut = v2.RandomResizedCrop(8)
    drawn = [cut.make_params([image]) for _ in range(3000)]
    theirs = torch.tensor([[d[key] for key in ("top", "left", "height", "width")] for d in drawn], dtype=torch.double)
    # Means and deviations of place and size; 3,000 draws tell them apart to about 2 % of a deviation each.
    assert ((ours.mean(0) - theirs.mean(0)).abs() < 0.1 * theirs.std(0)).all()
    assert ((ours.std(0) / theirs.std(0) - 1).abs() < 0.1).all()


def test_an_image_that_no_window_fits_is_cut_in_the_middle() -> None:
    heights, widths = torch.tensor([100, 10]), torch.tensor([10, 100])
    augmentation = RandomResizedCrop(size=8, scale=(1.0, 1.0))
    numbers = augmentation.draw(2, torch.Generator().manual_seed(0))
    assert augmentation.windows(heights, widths, numbers).tolist() == [[43, 0, 13, 10], [0, 43, 10, 13]]


@pytest.mark.parametrize(("fit", "round_"), [("crop", True), ("pad", True), ("squash", False)])
def test_a_circle_stays_a_circle_and_squeezing_is_seen(tmp_path: Path, fit: Fit, round_: bool) -> None:
    wide = Image.new("RGB", (300, 150), "white")
    ImageDraw.Draw(wide).ellipse((110, 35, 190, 115), fill="black")
    wide.save(tmp_path / "wide.png")
    wide.resize((150, 150)).save(tmp_path / "squeezed.png")
    paths = [tmp_path / "wide.png", tmp_path / "squeezed.png"]
    ids = [path.name for path in paths]
    table = ImageTable.of(FileSource(paths), classes=ids, splits=["test"] * 2, ids=ids, name="circles")
    torch.manual_seed(0)
    model = Embedder("conv-small", dim=16, size=64, canvas=72, fit=fit).eval()
    seen = ImageStore(table, model.view, "cpu").inputs(torch.arange(2))
    ink = seen[0, 0] < 0.5
    bars = seen[0].amax(0) == 0 if fit == "pad" else torch.zeros_like(ink)
    ink &= ~(bars.all(1, keepdim=True) | bars.all(0, keepdim=True))
    high, across = int(ink.any(1).sum()), int(ink.any(0).sum())
    assert (abs(high - across) <= 1) == round_
    with torch.no_grad():
        one, other = model(seen)
    apart = float((one - other).norm())
    assert (apart > 1e-2) == round_  # squashed, they are the same but for rounding


def test_a_line_is_refused(tmp_path: Path) -> None:
    from holdfast.data import BadImage

    Image.new("L", (1, 30_000)).save(tmp_path / "line.png")
    with pytest.raises(BadImage, match="line"):
        FileSource([tmp_path / "line.png"]).image(0, View(224, 256))


def test_a_view_says_what_it_is() -> None:
    assert str(View(224, 256)) == "256 → 224 px, shape kept, centre crop, bilinear"
    assert str(View(32, fit="pad", interpolation="bicubic")) == "32 px, shape kept, black bars, bicubic"
    with pytest.raises(ValueError, match="smaller"):
        View(224, 200)
