from __future__ import annotations

import threading
from pathlib import Path

import numpy as np
import pytest
import torch
from pictures import Paint

from holdfast.data import (
    Augment,
    BadImage,
    ImageStore,
    ImageTable,
    RaggedImages,
    RandomCrop,
    RandomResizedCrop,
    centre_crop,
    store,
)
from holdfast.data.sources import ArraySource, FileSource
from holdfast.errors import DataError
from holdfast.view import Fit, View

CACHES = ["device", "memory", "disk", "none"]
VIEW = View(12, 16)


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOLDFAST_CACHE", str(tmp_path / "cache"))


def same(one: RaggedImages, other: RaggedImages) -> bool:
    return all(np.array_equal(a, b) for a, b in zip(one.arrays(), other.arrays(), strict=True))


def of_files(paths: list[Path]) -> ImageTable:
    ids = [path.name for path in paths]
    return ImageTable.of(FileSource(paths), classes=ids, splits=["test"] * len(ids), ids=ids, name="files")


@pytest.fixture
def table(paint: Paint) -> ImageTable:
    return of_files([paint(f"{i:03}.png", width=20 + i % 3) for i in range(150)])  # more than one chunk


@pytest.mark.parametrize("cache", CACHES)
def test_every_cache_gives_what_the_table_reads(table: ImageTable, cache: store.Cache) -> None:
    images = ImageStore(table, VIEW, "cpu", cache)
    rows = torch.tensor([149, 3, 3, 77])
    assert same(images.get(rows), table.read(rows, VIEW))
    seen = images.inputs(rows)
    assert seen.dtype == torch.float32
    assert seen.is_contiguous(memory_format=torch.channels_last)
    assert torch.equal(seen, centre_crop(table.read(rows, VIEW), VIEW))
    assert images.inputs(torch.empty(0, dtype=torch.int64)).shape == (0, 3, 12, 12)
    assert len(images) == 150
    assert images.skipped == []


@pytest.mark.parametrize("cache", CACHES)
def test_bad_images_stop_or_are_skipped_and_reported(table: ImageTable, cache: store.Cache) -> None:
    assert isinstance(table.source, FileSource)
    table.source.paths[5].write_bytes(b"garbage")
    table.source.paths[140].unlink()
    with pytest.raises(BadImage, match=r"005\.png.*--skip-bad"):
        ImageStore(table, VIEW, "cpu", cache).get(torch.arange(10))
    images = ImageStore(table, VIEW, "cpu", cache, skip_bad=True)
    assert [name for name, _ in images.skipped] == ["005.png", "140.png"]
    assert images.skipped[1][1] == "there is no such file"
    assert len(images.table) == 148
    assert "2 unreadable skipped" in images.describe()
    rows = torch.arange(148)
    assert same(images.get(rows), images.table.read(rows, VIEW))
    assert "005.png" not in images.table.ids


def test_a_dataset_without_any_readable_image(paint: Paint) -> None:
    path = paint("a.png")
    path.write_bytes(b"")
    with pytest.raises(DataError, match="none of the 1 images"):
        ImageStore(of_files([path]), VIEW, "cpu", "memory", skip_bad=True)


def test_prefetched_rows_are_decoded_once_and_picked_up(table: ImageTable, monkeypatch: pytest.MonkeyPatch) -> None:
    images = ImageStore(table, VIEW, "cpu", "none")
    decoded: list[int] = []
    real = FileSource.image
    lock = threading.Lock()

    def counted(self: FileSource, index: int, view: View | None = None) -> np.ndarray:
        with lock:
            decoded.append(index)
        return real(self, index, view)

    monkeypatch.setattr(FileSource, "image", counted)
    rows, other = torch.tensor([4, 9, 2]), torch.tensor([7, 8, 1])
    images.prefetch(rows)
    assert same(images.get(other), table.subset(other).read(range(3), VIEW))  # does not disturb what is under way
    decoded.clear()
    first = images.get(rows)
    assert not set(decoded) & {7, 8, 1}
    assert len(decoded) <= 3
    decoded.clear()
    assert same(images.get(rows), first)
    assert sorted(decoded) == [2, 4, 9]


@pytest.mark.parametrize("fit", ["crop", "squash", "pad"])
@pytest.mark.parametrize("augment", [RandomCrop(size=12), RandomCrop(size=18, padding=2), RandomResizedCrop(size=12)])
@pytest.mark.parametrize("ahead", [False, True])
def test_views_decoded_at_each_use_are_those_of_a_cache(
    table: ImageTable, augment: Augment, fit: Fit, ahead: bool
) -> None:
    view = View(12, 16, fit)
    cached, decoding = (ImageStore(table, view, "cpu", cache, workers=2) for cache in ("memory", "none"))
    rows = torch.tensor([149, 3, 3, 77, 2])
    for seed in range(3):  # shapes are known from the second time on
        draws = augment.draw(len(rows), torch.Generator().manual_seed(seed))
        if ahead:
            decoding.prefetch(rows, augment, draws)
            decoding.prefetch(rows, augment, draws / 2)
        found, expected = decoding.views(rows, augment, draws), cached.views(rows, augment, draws)
        torch.testing.assert_close(found, expected, rtol=0, atol=1e-5)
        assert found.is_contiguous(memory_format=torch.channels_last)


def test_skipping_bad_images_keeps_nothing_that_is_decoded_again(
    table: ImageTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store, "_Buffer", None)
    assert len(ImageStore(table, VIEW, "cpu", "none", skip_bad=True)) == 150


def test_an_error_while_prefetching_comes_up_in_get(table: ImageTable) -> None:
    assert isinstance(table.source, FileSource)
    table.source.paths[5].write_bytes(b"garbage")
    images = ImageStore(table, VIEW, "cpu", "none")
    images.prefetch(torch.tensor([5]))
    with pytest.raises(BadImage, match=r"005\.png"):
        images.get(torch.tensor([5]))


def test_auto_goes_by_what_fits(monkeypatch: pytest.MonkeyPatch) -> None:
    cpu, cuda = torch.device("cpu"), torch.device("cuda")
    monkeypatch.setattr(store, "available_memory", lambda: 1000)
    monkeypatch.setattr(store, "free_memory", lambda device: 500)
    monkeypatch.delenv("LOCAL_WORLD_SIZE", raising=False)
    monkeypatch.setattr(store, "free_bytes", lambda folder: 1000)
    assert [store.choose_cache(n, cpu) for n in (300, 301, 501)] == ["memory", "disk", "none"]
    assert [store.choose_cache(n, cuda) for n in (200, 201, 301)] == ["device", "memory", "disk"]
    assert store.choose_cache(301, cpu, once=True) == "none"
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "4")
    assert [store.choose_cache(n, cpu) for n in (75, 76)] == ["memory", "disk"]
    monkeypatch.setenv("HOLDFAST_CACHE", "")
    assert store.choose_cache(301, cpu) == "none"


def test_memory_is_measured() -> None:
    assert store.available_memory() > 10**7


def test_describe_says_where_and_how_big() -> None:
    array = ArraySource(np.zeros((1200, 8, 8), np.uint8))
    ids = [str(i) for i in range(1200)]
    table = ImageTable.of(array, classes=ids, splits=["train"] * 1200, ids=ids, name="n")
    view = View(8)
    assert ImageStore(table, view, "cpu").describe() == "1,200 images cached in memory (0.2 MB)"
    assert ImageStore(table, view, "cpu", "device").describe() == "1,200 images cached on cpu (0.2 MB)"
    assert ImageStore(table, View(1000, fit="squash"), "cpu", "none").describe() == (
        "1,200 images decoded at each use (3.6 GB)"
    )


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
@pytest.mark.parametrize("cache", ["auto", *CACHES])
def test_images_arrive_on_the_device(table: ImageTable, cache: store.Cache) -> None:
    images = ImageStore(table, VIEW, "cuda", cache)
    rows = torch.tensor([3, 1])
    for asked in (rows, rows.cuda()):
        assert images.get(asked).device.type == "cuda"
        assert same(images.get(asked), table.read(rows, VIEW))
    assert cache != "auto" or images.cache == "device"


def test_a_buffer_grows_with_images_that_are_longer_than_expected(paint: Paint) -> None:
    table = of_files([paint(f"{i}.png", width=20 * (1 + i % 9), height=20) for i in range(150)])
    images = ImageStore(table, View(20), "cpu", "memory").get(torch.arange(150))
    assert images.widths.tolist() == [20 * (1 + i % 9) for i in range(150)]
    assert (images.longest, images.shorter) == (180, 20)
    assert same(images, table.read(range(150), View(20)))
