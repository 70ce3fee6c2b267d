from __future__ import annotations

import zipfile
from pathlib import Path

import pytest
from pictures import Paint
from torch import nn

from holdfast.data import load
from holdfast.data.readers.folder import image_files
from holdfast.errors import DataError
from holdfast.evaluation import evaluate
from holdfast.view import View


@pytest.fixture
def loose(paint: Paint, tmp_path: Path) -> Path:
    for name in ("loose/b.png", "loose/deep/er/a.jpg", "loose/.hidden.png"):
        paint(name)
    (tmp_path / "loose" / "notes.txt").write_text("no image")
    return tmp_path / "loose"


def test_every_image_is_found_without_a_label(loose: Path) -> None:
    table = load(f"images:{loose}")
    assert table.ids == ["b.png", "deep/er/a.jpg"]
    assert not table.labelled
    assert set(table.splits.tolist()) == {"gallery"}
    assert len(table.read([0, 1], View(16))) == 2
    assert table.skipped_files.no_images == ("notes.txt",)
    assert table.skipped_files.hidden == (".hidden.png",)


def test_a_zip_file_will_do(loose: Path, tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "loose.zip", "w") as archive:
        archive.write(loose / "b.png", "b.png")
    assert load(f"images:{tmp_path / 'loose.zip'}").ids == ["b.png"]


def test_a_single_file_is_a_table(loose: Path) -> None:
    table = image_files([loose / "b.png"])
    assert table.ids == [str(loose / "b.png")]
    assert len(table.read([0], View(16))) == 1


def test_no_images_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no images"):
        load(f"images:{tmp_path}")


def test_images_without_labels_are_not_evaluated(loose: Path) -> None:
    net = nn.Sequential(nn.AdaptiveAvgPool2d(2), nn.Flatten())
    with pytest.raises(DataError, match="no labels to evaluate by"):
        evaluate(net, f"images:{loose}", size=16, device="cpu")
