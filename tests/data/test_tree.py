from __future__ import annotations

import zipfile
from pathlib import Path

import pytest
from pictures import Paint

from holdfast.data import Images
from holdfast.data.tree import Archives, Folder, TreeSource, open_tree
from holdfast.errors import DataError
from holdfast.view import View


def test_hidden_files_are_left_out_and_links_do_not_loop(paint: Paint, tmp_path: Path) -> None:
    root = tmp_path / "root"
    for name in ("root/a/1.PNG", "root/a/b/2.png", "root/.hidden/3.png", "root/a/._4.png", "elsewhere/c/5.png"):
        paint(name)
    (root / "notes.txt").write_text("x")
    (root / "a" / "up").symlink_to(root)
    (root / "linked").symlink_to(tmp_path / "elsewhere")
    assert (Folder(root).links, Folder(root).images()) == (["linked"], ["a/1.PNG", "a/b/2.png"])
    tree = Folder(root, follow_links=True)
    assert tree.names == ["a/1.PNG", "a/b/2.png", "linked/c/5.png", "notes.txt"]
    assert tree.images() == ["a/1.PNG", "a/b/2.png", "linked/c/5.png"]
    assert tree.text("notes.txt") == "x"
    assert TreeSource(tree, ["a/b/2.png"]).image(0).shape == (24, 24, 3)


def test_archives_are_one_tree(paint: Paint, tmp_path: Path) -> None:
    picture = paint("p.png")
    for name, member in (("x.zip", "a/1.png"), ("y.zip", "b/2.png")):
        with zipfile.ZipFile(tmp_path / name, "w") as archive:
            archive.write(picture, member)
            archive.writestr("__MACOSX/a/._1.png", "junk")
            archive.writestr("empty/", "")
            archive.writestr(f"{member}.txt", name)
    tree = open_tree(str(tmp_path), "zip files", archives=("none*.zip", "*.zip"))
    assert isinstance(tree, Archives)
    assert tree.names == ["a/1.png", "a/1.png.txt", "b/2.png", "b/2.png.txt"]
    assert tree.text("b/2.png.txt") == "y.zip"
    assert TreeSource(tree, ["b/2.png", "a/1.png"]).images([0, 1], View(8))[1].shape == (8, 8, 3)
    assert open_tree(str(tmp_path / "x.zip"), "a zip file").images() == ["a/1.png"]


def test_find_prefers_the_nearest(tmp_path: Path) -> None:
    for name in ("deep/er/list.txt", "deep/list.txt", "my_list.txt"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("")
    assert Folder(tmp_path).find("list.txt") == "deep/list.txt"
    assert Folder(tmp_path).find("none.txt") is None


def test_roots_that_cannot_be_opened(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="does not exist; expected a layout"):
        open_tree(str(tmp_path / "none"), "a layout")
    (tmp_path / "file").write_text("x")
    with pytest.raises(DataError, match="neither a folder nor a zip file"):
        open_tree(str(tmp_path / "file"), "a layout")
    (tmp_path / "broken.zip").write_bytes(b"PK\x03\x04 no more")
    with pytest.raises(DataError, match="cannot open the archive"):
        open_tree(str(tmp_path), "a layout", archives=("none*.zip", "*.zip"))


def test_missing_files_are_counted_and_the_first_named(tmp_path: Path) -> None:
    (tmp_path / "1.png").write_text("")
    with pytest.raises(DataError, match=r"4 of the files.*2\.png, 3\.png, 4\.png, \.\.\..*--skip-bad"):
        Images(root=str(tmp_path)).require(Folder(tmp_path), [f"{i}.png" for i in range(1, 6)])
