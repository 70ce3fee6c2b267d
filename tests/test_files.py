"""A folder that is replaced is the old one or the new one, wherever the process dies."""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast.files import new_folder, recover_folder


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
