from __future__ import annotations

import multiprocessing
import pickle
import zipfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from pictures import Paint

from holdfast.data.sources import ArraySource, BadImage, FileSource
from holdfast.data.tree import Archives, TreeSource
from holdfast.view import View


@pytest.fixture
def pair(paint: Paint, tmp_path: Path) -> tuple[FileSource, TreeSource]:
    """The same forty pictures as files and as members of two archives."""
    paths = [paint(f"{i}.png", seed=i) for i in range(40)]
    archives = [tmp_path / "a.zip", tmp_path / "b.zip"]
    for number, archive in enumerate(archives):
        with zipfile.ZipFile(archive, "w") as file:
            for path in paths[number::2]:
                file.write(path, path.name)
    return FileSource(paths), TreeSource(Archives(archives), [f"{i}.png" for i in range(40)])


def test_members_equal_files(pair: tuple[FileSource, TreeSource]) -> None:
    files, members = pair
    assert len(members) == len(files) == 40
    assert np.array_equal(members.images(range(40), View(16)), files.images(range(40), View(16)))
    assert members.where(3).endswith("b.zip/3.png")


def test_threads_read_what_one_reader_would(pair: tuple[FileSource, TreeSource]) -> None:
    files, members = pair
    with ThreadPoolExecutor(8) as pool:
        read = list(pool.map(members.image, [i % 40 for i in range(200)]))
    assert all((pixels == files.image(i % 40)).all() for i, pixels in enumerate(read))


def test_a_pickled_copy_opens_its_own_handles(pair: tuple[FileSource, TreeSource]) -> None:
    files, members = pair
    members.image(0)
    assert (pickle.loads(pickle.dumps(members)).image(5) == files.image(5)).all()


def _sums(source: TreeSource, rows: list[int]) -> list[int]:
    return [int(source.image(i).sum()) for i in rows]


def _child(source: TreeSource, rows: list[int], queue: multiprocessing.SimpleQueue[list[int]]) -> None:
    queue.put(_sums(source, rows))


@pytest.mark.skipif("fork" not in multiprocessing.get_all_start_methods(), reason="no fork here")
def test_a_forked_copy_shares_no_file_position(pair: tuple[FileSource, TreeSource]) -> None:
    _, members = pair
    expected = _sums(members, list(range(40)))  # handles are open before the fork
    context = multiprocessing.get_context("fork")
    queue = context.SimpleQueue()
    child = context.Process(target=_child, args=(members, list(range(40)) * 5, queue))
    child.start()
    mine = _sums(members, list(range(40)) * 5)
    assert queue.get() == mine == expected * 5
    child.join()


def test_a_missing_member_is_a_missing_file(pair: tuple[FileSource, TreeSource]) -> None:
    source = TreeSource(pair[1].tree, ["none.png"])
    with pytest.raises(BadImage) as caught:
        source.image(0)
    assert caught.value.missing
    assert "a.zip/none.png" in str(caught.value)


@pytest.mark.parametrize("shape", [(5, 6, 6), (5, 6, 6, 3), (5, 3, 3), (3, 3, 3, 3)])
def test_arrays_grey_and_coloured(shape: tuple[int, ...]) -> None:
    array = np.random.default_rng(0).integers(0, 256, shape, dtype=np.uint8)
    source = ArraySource(array)
    expected = array if array.ndim == 4 else np.repeat(array[..., None], 3, -1)
    assert np.array_equal(source.images([2, 0, 2], View(shape[1])), expected[[2, 0, 2]])
    assert (source.image(1) == expected[1]).all()
    assert np.stack(source.images([1, 2], View(4))).shape == (2, 4, 4, 3)
    assert source.images([], View(4)) == []


def test_other_arrays_are_refused() -> None:
    for array in (np.zeros((2, 4, 4), np.float32), np.zeros((2, 4, 4, 4), np.uint8), np.zeros((4, 4), np.uint8)):
        with pytest.raises(ValueError, match="uint8"):
            ArraySource(array)  # type: ignore[arg-type]
