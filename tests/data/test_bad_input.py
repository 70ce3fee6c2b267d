"""What fuzzing found in the readers: rows that got lost, walks that never ended, names that no file could hold."""

from __future__ import annotations

import os
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pictures import painted

from holdfast.data import from_csv, from_folder
from holdfast.data import tree as limits
from holdfast.data.sources import BadImage, FileSource
from holdfast.errors import DataError


def write(folder: Path, text: str) -> Path:
    file = folder / "list.csv"
    file.write_bytes(text.encode())
    return file


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('path,label\na.jpg,"cat\nb.jpg,dog\nc.jpg,dog\n', "unexpected end of data"),
        ("path,label\nred, round.jpg,apple\nb.jpg,pear\n", "line 2: more cells than columns"),
        ('path,label\n"a.jpg,cat\nb.jpg",dog\nc.jpg,cat\n', "goes over several lines"),
        ("path,path,label\na.jpg,b.jpg,cat\n", "two columns 'path'"),
        ('path,label\n"a"b.jpg,cat\n', "expected after"),
        (f"path,label\n{'x' * 5000}.jpg,cat\nb.jpg,dog\n", "2 of the files listed"),
    ],
)
def test_no_row_of_a_csv_file_gets_lost_quietly(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(DataError, match=message):
        from_csv(write(tmp_path, text))


CELL = st.text(st.characters(exclude_categories=("Cs", "Cc", "Zl", "Zp")), min_size=1, max_size=12).filter(str.strip)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(rows=st.lists(st.tuples(CELL, CELL), min_size=2, max_size=8))
def test_what_a_csv_file_lists_is_what_the_table_holds(tmp_path: Path, rows: list[tuple[str, str]]) -> None:
    import csv

    with (tmp_path / "list.csv").open("w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows([("path", "label"), *rows])
    wanted = [(path.strip(), label.strip()) for path, label in rows]
    if len({label for _, label in wanted}) < 2:
        return
    table = from_csv(tmp_path / "list.csv", skip_bad=True, validation=0)
    assert [(i, table.class_names[label]) for i, label in zip(table.ids, table.labels, strict=True)] == wanted


def test_a_home_folder_that_does_not_exist() -> None:
    for read in (from_csv, from_folder):
        with pytest.raises(DataError, match="home folder that is not known"):
            read("~nobody-has-this-name/x")


def photos(root: Path, *names: str) -> Path:
    for name in names:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        painted(0).save(root / name)
    return root


def test_a_pipe_with_the_name_of_an_image_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "a.jpg")
    with pytest.raises(BadImage, match="no plain file"):
        FileSource([tmp_path / "a.jpg"]).image(0)


def test_links_that_lead_to_each_other_do_not_multiply_without_end(tmp_path: Path) -> None:
    names = [f"class{i}" for i in range(12)]
    photos(tmp_path, *(f"{name}/a.png" for name in names))
    for one in names:
        for other in names:
            (tmp_path / one / f"to-{other}").symlink_to(tmp_path / other)
    with pytest.raises(DataError, match="again and again"):
        from_folder(tmp_path)


def test_a_link_shows_a_folder_under_a_second_name(tmp_path: Path) -> None:
    photos(tmp_path, "cat/a.png", "dog/b.png")
    (tmp_path / "hound").symlink_to("dog")
    assert sorted(from_folder(tmp_path).ids) == ["cat/a.png", "dog/b.png", "hound/b.png"]


DEPTH = 1500
"""More folders in each other than Python may call itself."""


@pytest.fixture
def with_deep_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder with a deep tree in it, taken down again: pytest's own removal would call itself too often."""
    monkeypatch.chdir(tmp_path)
    for _ in range(DEPTH):
        Path("d").mkdir()
        os.chdir("d")
    os.chdir(tmp_path)
    yield tmp_path
    for _ in range(DEPTH):
        os.chdir("d")
    for _ in range(DEPTH):
        os.chdir("..")
        Path("d").rmdir()


def test_folders_deeper_than_python_may_call_itself(with_deep_folder: Path) -> None:
    photos(with_deep_folder, "cat/a.png", "dog/b.png")
    assert len(from_folder(with_deep_folder)) == 2


@pytest.mark.skipif(os.name != "posix", reason="names are bytes on POSIX alone")
def test_a_name_that_is_no_text_is_refused(tmp_path: Path) -> None:
    photos(tmp_path, "cat/a.png", "dog/b.png")
    (tmp_path / "dog" / "\udcff.png").write_bytes((tmp_path / "dog" / "b.png").read_bytes())
    with pytest.raises(DataError, match="not in UTF-8") as caught:
        from_folder(tmp_path)
    str(caught.value).encode()


def test_folders_that_cannot_be_listed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(path: object) -> None:
        raise PermissionError(13, "Permission denied")

    photos(tmp_path, "cat/a.png")
    monkeypatch.setattr(os, "scandir", refuse)
    with pytest.raises(DataError, match="Permission denied; check its permissions"):
        from_folder(tmp_path)


def packed(tmp_path: Path, *members: str) -> Path:
    painted(0).save(tmp_path / "picture.png")
    with zipfile.ZipFile(tmp_path / "photos.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        for member in ("cat/a.png", "dog/b.png", *members):
            archive.writestr(zipfile.ZipInfo(member), (tmp_path / "picture.png").read_bytes())
    return tmp_path / "photos.zip"


@pytest.mark.parametrize("member", ["../../x/a.png", "/etc/a.png", "cat/../../a.png"])
def test_an_archive_that_leads_out_of_itself_is_refused(tmp_path: Path, member: str) -> None:
    with pytest.raises(DataError, match="leads out of it"):
        from_folder(packed(tmp_path, member))


@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_an_archive_with_one_name_twice_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"holds 'cat/a\.png' 2 times"):
        from_folder(packed(tmp_path, "cat/a.png"))


def test_a_member_that_would_fill_the_memory_is_not_unpacked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = from_folder(packed(tmp_path), validation=0)
    assert table.source.image(0).shape[2] == 3
    monkeypatch.setattr(limits, "LARGEST", 10)
    with pytest.raises(BadImage, match="would unpack to"):
        table.source.image(0)
