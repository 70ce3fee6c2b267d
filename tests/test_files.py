"""A folder that is replaced is the old one or the new one, wherever the process dies; names that no file can have."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from holdfast.errors import HoldfastError
from holdfast.files import kind_of, new_folder, recover_folder, write_atomic


class Dies(BaseException):
    pass


@pytest.mark.parametrize("move", [0, 1])
def test_a_crash_between_the_two_moves_is_put_right(move: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "model"
    with new_folder(folder) as aside:
        (aside / "weights").write_text("old")
    real, calls = Path.replace, iter(range(99))

    def dies(self: Path, target: Path) -> Path:
        if next(calls) >= move:  # from here on nothing happens any more, as in a process that is gone
            raise Dies
        return real(self, target)

    monkeypatch.setattr(Path, "replace", dies)
    with pytest.raises(Dies), new_folder(folder) as aside:
        (aside / "weights").write_text("new")
    monkeypatch.undo()
    recover_folder(folder)
    assert (folder / "weights").read_text() == "old"
    with new_folder(folder) as aside:
        (aside / "weights").write_text("new")
    assert (folder / "weights").read_text() == "new"
    assert [path.name for path in tmp_path.iterdir()] == ["model"]


def test_an_older_folder_survives_a_second_crash_before_it_was_put_back(tmp_path: Path) -> None:
    old = tmp_path / ".model.old"
    old.mkdir()
    (old / "weights").write_text("old")
    with pytest.raises(Dies), new_folder(tmp_path / "model"):
        raise Dies
    assert (tmp_path / "model" / "weights").read_text() == "old"


def test_what_lies_at_a_path(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "link").symlink_to("file")
    found = {
        name: kind_of(tmp_path / name) for name in ("file", "link", ".", "pipe", "none", "x" * 5000, "\0", "\ud800")
    }
    assert found == {
        "file": "file", "link": "file", ".": "folder", "pipe": "other", "none": None, "x" * 5000: None, "\0": None,
        "\ud800": None,
    }  # fmt: skip


@pytest.mark.parametrize("name", [".", "/", ""])
def test_a_folder_is_not_written_over(name: str) -> None:
    with pytest.raises(IsADirectoryError):
        write_atomic(Path(name), "new")


@pytest.mark.parametrize("name", ["x" * 5000, f"{'x' * 5000}.yaml", f"{'x' * 300}/y"])
def test_a_name_longer_than_any_files_is_one_line(name: str) -> None:
    from holdfast.data import load
    from holdfast.models import load_model
    from holdfast.models.weights import read_state
    from holdfast.training.recipe import load_recipe

    for read in (
        lambda: load_recipe(name),
        lambda: load_recipe({"base": name, "data": "glyphs"}),
        lambda: load_model(f"./{name}"),
        lambda: load_model(f"onnx:{name}"),
        lambda: read_state(Path(name)),
        lambda: load(f"mnist:{name}"),
        lambda: load(f"csv:{name}"),
        lambda: load(f"folder:{name}"),
    ):
        with pytest.raises(HoldfastError):
            read()
