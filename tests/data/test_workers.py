"""Processes that read images give what threads give, and end when they should."""

from __future__ import annotations

import dataclasses
import gc
import subprocess
import sys
import time
import zipfile
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from holdfast.data import from_folder, pool, workers
from holdfast.data.augment import RandomResizedCrop
from holdfast.data.decoding import AHEAD, Decoder, chunks
from holdfast.data.sources import BadImage
from holdfast.data.table import ImageTable
from holdfast.data.tree import Archives, TreeSource
from holdfast.data.workers import Workers, processes_pay
from holdfast.errors import DataError
from holdfast.view import View

VIEW = View(16, 20)
CPU = torch.device("cpu")

linux = pytest.mark.skipif(sys.platform != "linux", reason="other systems have threads")


@pytest.fixture
def files(tmp_path: Path) -> Path:
    generator = np.random.default_rng(0)
    for number in range(20):
        path = tmp_path / "files" / f"class{number % 2}" / f"{number}.jpg"
        path.parent.mkdir(parents=True, exist_ok=True)
        shape = (24 + number, 40 - number, 3)
        Image.fromarray(generator.integers(0, 256, shape, np.uint8)).save(path)
    return tmp_path / "files"


@pytest.fixture
def forced(monkeypatch: pytest.MonkeyPatch) -> None:
    """Processes for two workers and any table."""
    monkeypatch.setattr(workers, "MANY", 1)
    monkeypatch.setattr(workers, "WORTH", 1)


def decoder(table: ImageTable, processes: bool) -> Decoder:
    made = Decoder(table, VIEW, CPU, 2)
    made._workers = Workers(table, VIEW, 2, processes)
    return made


@linux
def test_processes_give_what_threads_give(files: Path) -> None:
    table, rows = from_folder(files), torch.tensor([3, 0, 19, 7, 7])
    augment = RandomResizedCrop(size=16, scale=(0.3, 1.0))
    draws = augment.draw(len(rows), torch.Generator().manual_seed(0))
    threads, processes = (decoder(table, way) for way in (False, True))
    for _ in range(2):  # the second time canvases are known
        mine, theirs = processes.views(rows, augment, draws), threads.views(rows, augment, draws)
        torch.testing.assert_close(mine, theirs, atol=1e-6, rtol=0)
    assert np.array_equal(processes._shapes, threads._shapes)
    assert processes._shapes[rows].all()
    whole = [each.images(rows) for each in (threads, processes)]
    assert all(np.array_equal(*pair) for pair in zip(*(each.arrays() for each in whole), strict=True))


@linux
def test_each_process_opens_its_own_archive(files: Path, tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "files.zip", "w") as archive:
        for path in sorted(files.rglob("*.jpg")):
            archive.write(path, path.name)
    tree = Archives([tmp_path / "files.zip"])
    source = TreeSource(tree, tree.names)
    source.image(0)  # this process holds a handle before it is copied
    table = dataclasses.replace(from_folder(files), source=source)
    read = decoder(table, True).images(torch.arange(20)).arrays()
    assert all(np.array_equal(mine, source.image(n, VIEW)) for n, mine in enumerate(read))


@linux
@pytest.mark.usefixtures("forced")
def test_bad_and_odd_images_are_told(files: Path) -> None:
    bad = files / "class0" / "4.jpg"
    bad.write_bytes(bad.read_bytes()[:40])
    image = Image.new("RGB", (30, 30))
    image.save(files / "class0" / "2.jpg", exif=b"Exif\0\0II*\0\x08\0\0\0\x09\0\x12\x01\x03\0\x01\0")
    table = from_folder(files)
    assert processes_pay(table, 2)
    found = list(chunks(table, VIEW, 2))
    (why,) = [reason for _, _, each in found for reason in each.values()]
    assert sum(len(rows) for rows, _, _ in found) == len(table) - 1
    assert [table.source.where(position)[-5:] for position in table.source.odd] == ["2.jpg"]
    with pytest.raises(BadImage, match=r"4\.jpg"):
        decoder(table, True).images(torch.arange(len(table)))
    assert "4.jpg" in str(why)


@linux
def test_a_worker_that_dies_is_one_line(files: Path) -> None:
    made = decoder(from_folder(files), True)
    made.images(torch.arange(4))
    assert made._workers.pool is not None
    for process in made._workers.pool.processes:
        process.kill()
    for _ in range(2):  # while the pool does not know, and when it does
        with pytest.raises(DataError, match=r"a worker that decodes images died .*; start again"):
            made.images(torch.arange(4))


def all_free(made: Decoder) -> bool:
    """Whether every slot is, or soon will be, without a look at who holds which."""
    slots = made._workers.pool.slots  # type: ignore[union-attr]
    for _ in range(100):
        gc.collect()
        if sorted(slots.free) == list(range(2 * pool.SLOTS)):
            return True
        time.sleep(0.05)
    return False


@linux
def test_slots_are_free_again(files: Path) -> None:
    """After use, where nobody asks for what was decoded ahead, and after a failure."""
    made, rows = decoder(from_folder(files), True), torch.arange(20)
    images = made.images(rows)
    assert all_free(made)
    for shift in range(2 * AHEAD):
        made.prefetch(rows.roll(shift), None, None)
    assert np.array_equal(made.images(rows).arrays()[0], images.arrays()[0])
    assert len(made._ahead) == AHEAD
    made._ahead.clear()
    assert all_free(made)
    (files / "class0" / "4.jpg").write_bytes(b"")
    with pytest.raises(BadImage, match=r"4\.jpg"):
        made.images(rows)
    assert all_free(made)


@linux
def test_what_is_held_keeps_its_slot(files: Path) -> None:
    table = from_folder(files)
    pool_of_two = pool.ProcessPool(2, table, VIEW)
    held = [pool_of_two.submit(_ones, number).result()[0][0] for number in range(3 * pool.SLOTS)]
    assert not pool_of_two.slots.free, "more results than slots"
    assert all((array == number).all() for number, array in enumerate(held))
    del held
    gc.collect()
    assert len(pool_of_two.slots.free) == 2 * pool.SLOTS
    pool_of_two.stop()


def _ones(table: ImageTable, view: View, number: int) -> tuple[list[np.ndarray]]:
    return ([np.full((100, 100), number, np.uint8)],)


@linux
@pytest.mark.parametrize(("size", "number"), [(4096, pool.SLOTS), (2, pool.SLOTS), (4096, 1)])
def test_what_finds_no_room_travels(files: Path, monkeypatch: pytest.MonkeyPatch, size: int, number: int) -> None:
    """Slots with room for some images of a task or for none, and fewer slots than tasks."""
    monkeypatch.setattr(pool, "SLOT", size)
    monkeypatch.setattr(pool, "SLOTS", number)
    table, rows = from_folder(files), torch.arange(20)
    expected, made = decoder(table, False).images(rows).arrays(), decoder(table, True)
    for shift in range(AHEAD):
        made.prefetch(rows.roll(shift), None, None)
    for shift in range(AHEAD):
        found = made.images(rows.roll(shift)).arrays()
        assert all(np.array_equal(image, expected[row]) for row, image in zip(rows.roll(shift), found, strict=True))


@linux
def test_a_dropped_decoder_ends_its_processes(files: Path) -> None:
    made = decoder(from_folder(files), True)
    made.prefetch(torch.arange(20), None, None)
    assert made._workers.pool is not None
    children = [process.pid for process in made._workers.pool.processes]
    del made
    gc.collect()
    assert _gone(children)


@linux
@pytest.mark.usefixtures("forced")
def test_chunks_hold_what_was_read_and_end(files: Path) -> None:
    table = from_folder(files)
    found = list(chunks(table, VIEW, 2))
    images = [image for _, pixels, _ in found for image in pixels]
    assert all(np.array_equal(image, table.source.image(n, VIEW)) for n, image in enumerate(images))


SCRIPT = """
import os, sys, torch
from holdfast.data import from_folder
from holdfast.data.decoding import Decoder
from holdfast.data.workers import Workers
from holdfast.view import View
table = from_folder(sys.argv[1])
made = Decoder(table, View(16, 20), torch.device("cpu"), 2)
made._workers = Workers(table, View(16, 20), 2, True)
made.images(torch.arange(4))
print(*(process.pid for process in made._workers.pool.processes), flush=True)
if sys.argv[2] == "hang":
    import time
    time.sleep(600)
"""


@linux
@pytest.mark.parametrize("end", ["itself", "hang"])
def test_workers_end_with_their_process(files: Path, end: str) -> None:
    """Also where it is killed; a script needs no guard around its main part."""
    words = [sys.executable, "-c", SCRIPT, str(files), end]
    process = subprocess.Popen(words, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    children = [int(word) for word in process.stdout.readline().split()]
    assert children
    if end == "hang":
        process.kill()
    process.wait(60)
    process.stdout.close()
    assert _gone(children), "workers are left behind"


def _gone(children: list[int]) -> bool:
    """Whether all processes end soon."""
    for _ in range(300):
        if not any(_alive(child) for child in children):
            return True
        time.sleep(0.1)
    return False


def _alive(process: int) -> bool:
    try:
        return Path(f"/proc/{process}/stat").read_text().split()[2] != "Z"
    except OSError:
        return False


def test_few_workers_few_images_and_arrays_have_threads(files: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = from_folder(files)
    assert not processes_pay(table, 16), "few images"
    monkeypatch.setattr(workers, "WORTH", 1)
    assert not processes_pay(table, 2), "few workers"
    assert processes_pay(table, 16) == (sys.platform == "linux")
