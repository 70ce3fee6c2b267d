from __future__ import annotations

import io
import pickle
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from holdfast.data.sources import BadImage, decode
from holdfast.errors import DataError
from holdfast.view import View


def read(path: Path, view: View | None = None) -> np.ndarray:
    return decode(lambda: path.open("rb"), str(path), view)


def save(tmp_path: Path, image: Image.Image, name: str, **options: object) -> Path:
    image.save(tmp_path / name, **options)
    return tmp_path / name


def test_grey_and_bilevel_become_three_equal_channels(tmp_path: Path) -> None:
    grey = np.arange(256, dtype=np.uint8).reshape(16, 16)
    assert (read(save(tmp_path, Image.fromarray(grey), "g.png")) == grey[..., None]).all()
    bits = Image.fromarray(grey).convert("1")
    expected = np.asarray(bits).astype(np.uint8)[..., None] * 255
    assert (read(save(tmp_path, bits, "b.png")) == expected).all()


@pytest.mark.parametrize("mode", ["RGBA", "LA"])
def test_transparency_lies_over_white(tmp_path: Path, mode: str) -> None:
    image = Image.new(mode, (4, 4), (0, 0, 0, 0) if mode == "RGBA" else (0, 0))
    image.putpixel((1, 2), (0, 0, 0, 255) if mode == "RGBA" else (0, 255))
    pixels = read(save(tmp_path, image, "a.png"))
    assert (pixels[2, 1] == 0).all()
    assert (pixels.reshape(-1, 3) == 255).all(1).sum() == 15


def test_half_transparent_ink_is_half_white(tmp_path: Path) -> None:
    pixels = read(save(tmp_path, Image.new("RGBA", (2, 2), (0, 0, 0, 128)), "a.png"))
    assert abs(int(pixels[0, 0, 0]) - 127) <= 1


def test_palette_with_a_transparent_colour(tmp_path: Path) -> None:
    image = Image.new("P", (4, 4), 0)
    image.putpalette([10, 20, 30, 200, 100, 50])
    image.putpixel((0, 0), 1)
    assert (read(save(tmp_path, image, "p.png"))[0, 0] == (200, 100, 50)).all()
    pixels = read(save(tmp_path, image, "t.png", transparency=0))
    assert (pixels[3, 3] == 255).all()
    assert (pixels[0, 0] == (200, 100, 50)).all()


def test_sixteen_bit_grey_is_scaled_not_clipped(tmp_path: Path) -> None:
    values = np.array([[0, 257, 32768, 65535]], np.uint16)
    pixels = read(save(tmp_path, Image.fromarray(values), "s.png"))
    assert pixels[0, :, 0].tolist() == [0, 1, 128, 255]


def test_cmyk_keeps_its_colours(tmp_path: Path) -> None:
    image = Image.new("RGB", (16, 16), (250, 10, 10)).convert("CMYK")
    pixels = read(save(tmp_path, image, "c.jpg", quality=95))
    assert pixels[8, 8, 0] > 200
    assert (pixels[8, 8, 1:] < 60).all()


def test_exif_orientation_is_applied(tmp_path: Path) -> None:
    image = Image.new("RGB", (20, 10))
    image.paste((255, 255, 255), (0, 0, 10, 10))  # left half white
    exif = Image.Exif()
    exif[0x0112] = 6  # shown after a quarter turn clockwise: left becomes top
    pixels = read(save(tmp_path, image, "e.jpg", exif=exif, quality=95))
    assert pixels.shape == (20, 10, 3)
    assert pixels[3, 5, 0] > 200
    assert pixels[16, 5, 0] < 50


def test_the_first_frame_of_an_animation(tmp_path: Path) -> None:
    frames = [Image.new("RGB", (8, 8), colour) for colour in ("red", "blue")]
    path = save(tmp_path, frames[0], "a.gif", save_all=True, append_images=frames[1:])
    assert (read(path)[0, 0] == (255, 0, 0)).all()


def test_resizing_squashes_and_averages(tmp_path: Path) -> None:
    stripes = np.zeros((64, 32), np.uint8)
    stripes[:, ::2] = 255
    path = save(tmp_path, Image.fromarray(stripes), "s.png")
    small = read(path, View(8, fit="squash"))
    assert small.shape == (8, 8, 3)
    assert (np.abs(small[:, 1:-1].astype(int) - 127) < 20).all()  # without smoothing: all black or all white
    assert (read(path)[..., 0] == stripes).all()


def test_an_image_of_the_right_size_is_not_touched(tmp_path: Path) -> None:
    noise = np.random.default_rng(0).integers(0, 256, (8, 8, 3), dtype=np.uint8)
    assert (read(save(tmp_path, Image.fromarray(noise), "n.png"), View(8)) == noise).all()


@pytest.mark.parametrize("name", ["a.jpg", "a.png", "a.gif", "a.webp", "a.tif"])
def test_a_truncated_file_is_named(tmp_path: Path, name: str) -> None:
    noise = Image.fromarray(np.random.default_rng(0).integers(0, 256, (64, 64, 3), dtype=np.uint8))
    path = save(tmp_path, noise, name)
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    with pytest.raises(DataError, match="--skip-bad") as caught:
        read(path)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_text_missing_and_float_files_are_refused(tmp_path: Path) -> None:
    (tmp_path / "t.jpg").write_text("no picture")
    with pytest.raises(BadImage) as caught:
        read(tmp_path / "t.jpg")
    assert not caught.value.missing
    with pytest.raises(BadImage) as caught:
        read(tmp_path / "none.jpg")
    assert caught.value.missing
    path = save(tmp_path, Image.fromarray(np.zeros((4, 4), np.float32)), "f.tif")
    with pytest.raises(BadImage, match="8 or 16 bits"):
        read(path)


def test_a_decompression_bomb_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = save(tmp_path, Image.new("L", (64, 64)), "b.png")
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 100)
    with pytest.raises(BadImage, match="million pixels; save a smaller copy"):
        read(path)


def test_the_error_survives_pickling() -> None:
    error = BadImage("x.jpg", "cut off", missing=True)
    again = pickle.loads(pickle.dumps(error))
    assert (str(again), again.where, again.reason, again.missing) == (str(error), "x.jpg", "cut off", True)


def test_running_out_of_memory_is_not_blamed_on_the_image() -> None:
    def opener() -> io.BytesIO:
        raise MemoryError

    with pytest.raises(MemoryError):
        decode(opener, "x")
