from __future__ import annotations

import sys
import threading
import types
import warnings
from pathlib import Path

import pytest
from pictures import painted
from PIL import Image

from holdfast.data import FileSource, formats
from holdfast.data.formats import in_our_words, listening, needed


def test_avif_is_read_where_pillow_has_it(tmp_path: Path) -> None:
    if ".avif" not in Image.registered_extensions():
        assert needed(["a.AVIF"]) == ".avif needs Pillow 11.3 or newer"
        pytest.skip("this Pillow has no AVIF")
    painted(0).save(tmp_path / "a.avif")
    assert formats.is_image("photos/a.AVIF")
    assert FileSource([tmp_path / "a.avif"]).image(0).shape == (24, 24, 3)


def test_heic_is_read_where_its_plugin_is_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    plugin = types.ModuleType("pillow_heif")
    plugin.register_heif_opener = lambda: Image.register_extensions("HEIF", [".heic", ".heif"])  # type: ignore[attr-defined]
    Image.registered_extensions()
    monkeypatch.setattr(Image, "EXTENSION", {**Image.EXTENSION})
    monkeypatch.setitem(sys.modules, "pillow_heif", None)
    without = formats._readable()
    monkeypatch.setattr(formats, "EXTENSIONS", without)
    assert needed(["a.heic", "b.HEIC", "c.txt"]) == ".heic needs `pip install 'holdfast[heic]'`"
    monkeypatch.setitem(sys.modules, "pillow_heif", plugin)
    assert formats._readable() - without == {".heic", ".heif"}


@pytest.mark.parametrize(
    ("warning", "words"),
    [
        ("Image size (100000000 pixels) exceeds limit of 89478485 pixels, could be decompression bomb", "very large"),
        ("Image appears to be a malformed MPO file, it will be interpreted as a base JPEG file.", "a second image"),
        ("Corrupt EXIF data.  Expecting to read 2 bytes but only got 0. ", "upright"),
        ("something\nnew", "Pillow warns: something new"),
    ],
)
def test_warnings_in_our_words(warning: str, words: str) -> None:
    assert words in in_our_words(warning)


def test_only_the_thread_that_reads_an_image_is_listened_to(recwarn: pytest.WarningsRecorder) -> None:
    warnings.simplefilter("always")
    with listening() as heard:
        warnings.warn("mine", stacklevel=1)
        other = threading.Thread(target=lambda: warnings.warn("theirs", stacklevel=1))
        other.start()
        other.join()
    warnings.warn("later", stacklevel=1)
    assert heard == ["mine"]
    assert [str(warning.message) for warning in recwarn] == ["theirs", "later"]
