"""What a digest of images tells apart, and what it does not see."""

from __future__ import annotations

import shutil
import zipfile
from pathlib import Path

import numpy as np
from PIL import Image

from holdfast.data import content_digest, load


def photos(folder: Path, classes: tuple[str, ...] = ("mug", "lamp")) -> Path:
    for number, name in enumerate(classes):
        (folder / name).mkdir(parents=True)
        for image in range(2):
            pixels = np.full((8, 8, 3), 40 * number + 9 * image, np.uint8)
            Image.fromarray(pixels).save(folder / name / f"{image}.png")
    return folder


def digest(place: Path) -> str:
    return content_digest([load(f"folder:{place}")])


def test_a_copy_under_other_names_is_the_same_data(tmp_path: Path) -> None:
    one = photos(tmp_path / "one")
    copy = tmp_path / "elsewhere"
    shutil.copytree(one / "mug", copy / "z-cups")
    shutil.copytree(one / "lamp", copy / "lights")
    (copy / "lights" / "0.png").rename(copy / "lights" / "first.png")
    archive = tmp_path / "one.zip"
    with zipfile.ZipFile(archive, "w") as file:
        for path in one.rglob("*.png"):
            file.write(path, path.relative_to(one))
    assert digest(one) == digest(copy) == digest(archive)


def test_another_pixel_or_another_class_is_other_data(tmp_path: Path) -> None:
    one, pixel, moved = (photos(tmp_path / name) for name in ("one", "pixel", "moved"))
    Image.new("RGB", (8, 8), (1, 2, 3)).save(pixel / "mug" / "0.png")
    (moved / "mug" / "0.png").rename(moved / "lamp" / "2.png")
    assert len({digest(one), digest(pixel), digest(moved)}) == 3
