from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from pictures import painted
from PIL import Image, ImageOps
from torch import Tensor

from holdfast.data import jpeg
from holdfast.data.sources import BadImage, decode
from holdfast.view import View

REAL = jpeg.decoder()


def like_torchvision(data: Tensor, mode: int, exif: bool) -> Tensor:
    """What torchvision's decoder does, by Pillow: the pixels as they are stored."""
    assert (mode, exif) == (3, False)
    with Image.open(io.BytesIO(data.numpy().tobytes())) as image:
        return torch.from_numpy(np.array(image.convert("RGB"))).permute(2, 0, 1)


WAYS = [
    pytest.param(like_torchvision, id="alike"),
    pytest.param(None, id="pillow"),
    pytest.param(REAL, marks=pytest.mark.skipif(REAL is None, reason="torchvision has no decoder"), id="torchvision"),
]


@pytest.fixture(params=WAYS)
def used(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Bytes of each file that a decoder was given by itself."""
    given: list[int] = []
    by_itself = Image.frombytes

    def counted(data: Tensor, mode: int, exif: bool) -> Tensor:
        given.append(len(data))
        return request.param(data, mode, exif)

    def counted_by_pillow(mode: str, size: tuple[int, int], data: bytes, *decoder: str) -> Image.Image:
        if "jpeg" in decoder:
            given.append(len(data))
        return by_itself(mode, size, data, *decoder)

    monkeypatch.setattr(jpeg, "decoder", lambda: request.param and counted)
    monkeypatch.setattr(Image, "frombytes", counted_by_pillow)
    return given


def photograph(**options: Any) -> bytes:
    file, image = io.BytesIO(), painted(3, 45, 31)
    mode = options.pop("mode", "RGB")
    image.convert(mode).save(file, "JPEG", **options)
    return file.getvalue()


def by_pillow(content: bytes) -> np.ndarray:
    with Image.open(io.BytesIO(content)) as image:
        return np.array(ImageOps.exif_transpose(image).convert("RGB"))


def read(content: bytes, tell: Callable[[str], object] | None = None, view: View | None = None) -> np.ndarray:
    return decode(lambda: io.BytesIO(content), "a.jpg", view, tell)


def exif(orientation: int) -> Image.Exif:
    said = Image.Exif()
    said[0x010E], said[0x0112] = "a description that is longer than four bytes", orientation
    return said


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"progressive": True},
        {"subsampling": 0, "quality": 97},
        {"mode": "L"},
        {"comment": "x" * 60_000, "icc_profile": b"x" * 9000},
        {"icc_profile": b"x" * 1000},
    ],
)
def test_ordinary_files_have_the_pixels_that_pillow_gives(options: dict[str, Any], used: list[int]) -> None:
    content = photograph(**options)
    assert np.array_equal(read(content), by_pillow(content))
    assert used == [len(content)]


@pytest.mark.parametrize("orientation", range(1, 9))
def test_photographs_stand_upright(orientation: int, used: list[int]) -> None:
    content = photograph(exif=exif(orientation))
    assert np.array_equal(read(content), by_pillow(content))
    assert len(used) == 1
    view = View(16, 20)
    assert np.array_equal(read(content, view=view), read(_again(content), view=view))


def _again(content: bytes) -> bytes:
    """The same pixels in a file that is no JPEG."""
    file = io.BytesIO()
    Image.fromarray(by_pillow(content)).save(file, "PNG")
    return file.getvalue()


def damaged_exif() -> bytes:
    said = exif(6).tobytes()
    return photograph(exif=said.replace(b"\0\0\0\x2d", b"\0\0\xff\x2d").replace(b"\x2d\0\0\0", b"\x2d\xff\0\0"))


def two_images() -> bytes:
    file = io.BytesIO()
    painted(3, 45, 31).save(file, "MPO", save_all=True, append_images=[painted(4, 45, 31)])
    return file.getvalue()


@pytest.mark.parametrize(
    "content",
    [
        pytest.param(photograph(mode="CMYK"), id="cmyk"),
        pytest.param(photograph(xmp=b'<x:xmpmeta tiff:Orientation="3"/>'), id="xmp"),
        pytest.param(photograph(keep_rgb=True), id="rgb"),
        pytest.param(two_images(), id="mpo"),
        pytest.param(_again(photograph()), id="png"),
    ],
)
def test_other_files_are_pillows(content: bytes, used: list[int]) -> None:
    assert np.array_equal(read(content), by_pillow(content))
    assert used == []


def test_damaged_metadata_are_told(used: list[int]) -> None:
    told: list[str] = []
    read(damaged_exif(), told.append)
    assert told
    assert used == []


def test_a_very_large_image_is_told(used: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 1000)
    told: list[str] = []
    read(photograph(), told.append)
    assert "large" in told[0]
    assert used == []


@pytest.mark.parametrize("length", [3, 20, 200, -200])
def test_what_is_cut_off_is_refused_in_pillows_words(
    length: int, used: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    content = photograph(quality=95)[:length]
    with pytest.raises(BadImage) as caught:
        read(content)
    monkeypatch.setattr(jpeg, "read", lambda file: None)
    with pytest.raises(BadImage) as plain:
        read(content)
    assert str(caught.value) == str(plain.value)


def test_what_a_decoder_refuses_is_read_by_pillow(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuses(data: Tensor, mode: int, exif: bool) -> Tensor:
        raise RuntimeError("no")

    monkeypatch.setattr(jpeg, "decoder", lambda: refuses)
    content = photograph()
    assert np.array_equal(read(content), by_pillow(content))
