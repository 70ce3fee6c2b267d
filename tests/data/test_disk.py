from __future__ import annotations

import os
import shutil
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from pictures import Paint

from holdfast.data import ImageStore, ImageTable, disk
from holdfast.data.sources import BadImage, FileSource
from holdfast.errors import DataError
from holdfast.locks import locked
from holdfast.view import View

VIEW = View(12, 16)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOLDFAST_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(disk, "SYNCED", 1)  # a line for every chunk
    return tmp_path / "cache" / "images"


@pytest.fixture
def table(paint: Paint) -> ImageTable:
    paths = [paint(f"{i:03}.png", width=20 + i % 3) for i in range(150)]  # more than one chunk
    ids = [path.name for path in paths]
    return ImageTable.of(FileSource(paths), classes=ids, splits=["test"] * 150, ids=ids, name="files")


@pytest.fixture
def decoded(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Numbers of the images that were decoded."""
    seen: list[int] = []
    real = FileSource.images

    def counted(self: FileSource, indices: Sequence[int] | NDArray[np.int64], view: View) -> list[NDArray[np.uint8]]:
        seen.extend(int(i) for i in indices)
        return real(self, indices, view)

    monkeypatch.setattr(FileSource, "images", counted)
    return seen


def opened(table: ImageTable, skip_bad: bool = False) -> ImageStore:
    return ImageStore(table, VIEW, "cpu", "disk", skip_bad)


def right(store: ImageStore) -> bool:
    table = store.table
    plain = [table.source.image(position, VIEW) for position in table.positions.tolist()]  # `decoded` counts no such
    both = zip(store.get(torch.arange(len(store))).arrays(), plain, strict=True)
    return all(np.array_equal(one, other) for one, other in both)


def test_images_are_decoded_once_for_all_runs(table: ImageTable, folder: Path, decoded: list[int]) -> None:
    first = opened(table)
    assert sorted(decoded) == list(range(150))
    decoded.clear()
    again = opened(table)
    assert decoded == []
    assert right(first)
    assert right(again)
    assert str(folder) in again.describe()
    assert "on disk" in again.describe()


def test_other_files_and_other_canvases_have_sets_of_their_own(table: ImageTable, folder: Path, paint: Paint) -> None:
    opened(table)
    ImageStore(table, View(12, 18), "cpu", "disk")
    assert ImageStore(table, View(8, 16), "cpu", "disk").cache == "disk"  # the same canvas
    assert len(list(folder.iterdir())) == 2
    changed = paint("005.png", width=33)
    os.utime(changed, ns=(1, 1))
    assert right(opened(table))
    assert len(list(folder.iterdir())) == 3


def test_a_killed_fill_goes_on(
    table: ImageTable, folder: Path, decoded: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    real = disk.chunks

    def killed(*given: Any) -> Iterator[Any]:
        for number, chunk in enumerate(real(*given)):
            if number == 1:
                raise KeyboardInterrupt
            yield chunk

    with monkeypatch.context() as patch:
        patch.setattr(disk, "chunks", killed)
        with pytest.raises(KeyboardInterrupt):
            opened(table)
    (kept,) = folder.iterdir()
    with (kept / "pixels").open("ab") as file:
        file.write(b"half an image")
    with (kept / "index.jsonl").open("ab") as file:
        file.write(b'{"rows": 1')
    decoded.clear()
    assert right(opened(table))
    assert min(decoded) == 64


@pytest.mark.parametrize("file", ["pixels", "index.jsonl"])
def test_damaged_files_are_made_again(table: ImageTable, folder: Path, decoded: list[int], file: str) -> None:
    opened(table)
    (kept,) = folder.iterdir()
    content = (kept / file).read_bytes()
    (kept / file).write_bytes(content.replace(b"[19, 16]", b"[16, 19]", 1) if file == "index.jsonl" else content[:-1])
    decoded.clear()
    assert right(opened(table))
    assert sorted(decoded) == list(range(150))


def test_bad_images_are_remembered(table: ImageTable, folder: Path, decoded: list[int]) -> None:
    assert isinstance(table.source, FileSource)
    table.source.paths[5].write_bytes(b"garbage")
    table.source.paths[140].unlink()
    opened(table, skip_bad=True)
    decoded.clear()
    store = opened(table, skip_bad=True)
    assert decoded == []
    assert [name for name, _ in store.skipped] == ["005.png", "140.png"]
    assert right(store)
    with pytest.raises(BadImage, match=r"005\.png"):
        opened(table)


def test_a_full_disk_is_told_in_one_line_and_left_as_it_was(
    table: ImageTable, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(disk, "free_bytes", lambda folder: 1000)
        with pytest.raises(DataError, match=r"no room.*HOLDFAST_CACHE"):
            opened(table)

    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        with pytest.raises(DataError, match="no room"):
            opened(table)
    assert not any(folder.rglob("pixels"))


def test_no_folder_is_told(table: ImageTable, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOLDFAST_CACHE", "")
    with pytest.raises(DataError, match="HOLDFAST_CACHE"):
        opened(table)


def test_a_process_waits_for_another_that_fills(
    table: ImageTable, folder: Path, decoded: list[int], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(disk, "WAIT", 0.01)
    opened(table)
    (kept,) = folder.iterdir()
    aside = shutil.move(kept / "index.jsonl", tmp_path / "index.jsonl")
    decoded.clear()
    stores: list[ImageStore] = []
    with locked(kept / "lock", "the test"):
        waiting = threading.Thread(target=lambda: stores.append(opened(table)))
        waiting.start()
        waiting.join(0.2)
        assert waiting.is_alive()
        shutil.move(aside, kept / "index.jsonl")
    waiting.join(30)
    assert right(stores[0])
    assert decoded == []
