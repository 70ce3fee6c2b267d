"""One process at a time makes an index or adds to it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from holdfast.cli import main
from holdfast.errors import SearchError
from holdfast.locks import InUse, locked
from holdfast.search import add_images, create_index, filling, read_index, read_manifest
from holdfast.search.index import Fingerprints, Vectors
from index_cases import made, picture_table, pictures, small_model

ANOTHER = picture_table(pictures(8, seed=1), first=100)


def while_embedding(monkeypatch: pytest.MonkeyPatch, work: Any) -> list[BaseException]:
    """What a second process ends with that starts while the first one embeds its images."""
    real, ended = filling.embed_images, []

    def embed_images(*arguments: Any, **options: Any) -> tuple[Vectors, Fingerprints]:
        monkeypatch.setattr(filling, "embed_images", real)
        with pytest.raises(InUse) as refused:
            work()
        ended.append(refused.value)
        return real(*arguments, **options)

    monkeypatch.setattr(filling, "embed_images", embed_images)
    return ended


def test_adding_to_an_index_that_another_process_adds_to_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "index"
    made(folder, 12, calibrate=0)
    ended = while_embedding(monkeypatch, lambda: add_images(folder, ANOTHER))
    _, added = add_images(folder, picture_table(pictures(6, seed=2), first=50))
    assert added.added == 6
    assert "the index" in str(ended[0])
    assert "in use by process" in str(ended[0])
    assert not (folder / ".lock").exists()
    assert add_images(folder, ANOTHER)[1].added == 8
    assert len(read_index(folder, read_manifest(folder))) == 26


def test_making_an_index_where_another_process_makes_one_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "index"
    ended = while_embedding(monkeypatch, lambda: create_index(folder, small_model(), ANOTHER))
    index, _ = create_index(folder, small_model(), picture_table(pictures(12)), calibrate=0)
    assert len(ended) == 1
    assert len(read_index(folder, read_manifest(folder))) == len(index) == 12
    assert [path.name for path in tmp_path.iterdir()] == ["index"]


def test_the_command_says_so_in_one_line(tmp_path: Path, photos: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "index"
    made(folder, 12, calibrate=0)
    with locked(folder / ".lock", "it"):
        assert main(["index", str(folder), "--add", f"folder:{photos}", "--device", "cpu"]) == 2
    said = capsys.readouterr().err.strip().splitlines()
    assert len(said) == 1
    assert said[0].startswith(f"holdfast: the index {folder} is in use by process")


def test_no_lock_is_left_in_a_folder_that_holds_no_index(tmp_path: Path) -> None:
    with pytest.raises(SearchError, match="there is no index"):
        add_images(tmp_path, ANOTHER)
    assert not list(tmp_path.iterdir())


def test_adding_to_an_index_that_is_being_filled_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("milvus_lite", reason="pip install 'holdfast[milvus]'")
    folder, options = tmp_path / "index", {"kind": "milvus", "milvus": str(tmp_path / "milvus.db"), "calibrate": 0}
    ended = while_embedding(monkeypatch, lambda: add_images(folder, ANOTHER, milvus=options["milvus"]))
    assert len(made(folder, 12, **options)) == 12
    assert len(ended) == 1
