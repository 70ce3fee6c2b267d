from __future__ import annotations

from pathlib import Path

import pytest
from pictures import Paint

from holdfast.data import ImageStore, from_csv
from holdfast.errors import DataError
from holdfast.view import View


@pytest.fixture
def folder(paint: Paint, tmp_path: Path) -> Path:
    for i in range(6):
        paint(f"images/{i}.png")
    return tmp_path


def write(folder: Path, text: str) -> Path:
    (folder / "list.csv").write_text(text, encoding="utf-8")
    return folder / "list.csv"


def test_all_columns_in_any_order(folder: Path) -> None:
    file = write(
        folder,
        "\ufeffsplit, group,label,path,coarse,width\n"
        "Train,c1,a,images/0.png,x,3\ntrain,c2,b,images/1.png,y,3\nquery,c1,q,images/2.png,x,3\n"
        'gallery,c2,q,images/3.png,"x",3\n',
    )
    table = from_csv(file)
    assert table.ids == [f"images/{i}.png" for i in range(4)]
    assert table.class_names == ["a", "b", "q"]
    assert table.labels.tolist() == [0, 1, 2, 2]
    assert table.splits.tolist() == ["train", "train", "query", "gallery"]
    assert table.coarse_names == ["x", "y"]
    assert table.coarse is not None
    assert table.coarse.tolist() == [0, 1, 0, 0]
    assert table.groups is not None
    assert table.groups.tolist() == [0, 1, 0, 1]
    assert table.read([3], View(24)).longest == 24


@pytest.mark.parametrize("separator", [";", "\t"])
def test_other_separators_are_noticed(separator: str, folder: Path) -> None:
    lines = ["path,label,note", "images/0.png,a,x", "images/1.png,a,x", "images/2.png,b,'1;2'"]
    table = from_csv(write(folder, "\n".join(lines[:-1]).replace(",", separator) + f"\nimages/2.png{separator}b, c"))
    assert table.class_names == ["a", "b, c"]
    assert table.ids == ["images/0.png", "images/1.png", "images/2.png"]
    with pytest.raises(DataError, match="in quotes"):
        from_csv(write(folder, f"path{separator}label\nimages/0.png{separator}a{separator}b\n"))


def test_without_splits_classes_are_held_out(folder: Path) -> None:
    file = write(folder, "path,label\n" + "".join(f"images/{i}.png,{i // 2}\n" for i in range(6)))
    table = from_csv(file, test=0.4)
    assert len(set(table.split("test").labels)) == 1
    assert not set(table.split("train").labels) & set(table.split("test").labels)
    assert table.groups is None
    assert table.coarse is None


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("path,lable\nimages/0.png,a\n", "unknown column 'lable'; did you mean 'label'"),
        ("path,label,splt\nimages/0.png,a,train\n", "did you mean 'split'"),
        ("images/0.png,a\n", "no column 'path'"),
        ("", "no column 'path'"),
        ("path,label\nimages/0.png,a\nimages/1.png,\n", "line 3: 'label' is empty"),
        ("path,label\nimages/0.png\n", "line 2: 'label' is empty"),
        ("path,label,split\nimages/0.png,a,tarin\n", "line 2: unknown split 'tarin'; did you mean 'train'"),
        ("path,label\nimages/0.png,a\nimages/1.png,a\n", "fewer than two labels"),
        ("path,label\nimages/0.png,a\nno1.png,b\nno2.png,b\n", r"2 of the files.*no1\.png, no2\.png"),
    ],
)
def test_mistakes_are_named(folder: Path, text: str, message: str) -> None:
    with pytest.raises(DataError, match=message) as caught:
        from_csv(write(folder, text))
    assert "\n" not in str(caught.value)


def test_no_file_and_no_text(folder: Path) -> None:
    with pytest.raises(DataError, match="there is no file"):
        from_csv(folder / "none.csv")
    (folder / "bytes.csv").write_bytes(b"path,label\n\xff\xfe\x00,a\n")
    with pytest.raises(DataError, match="not a CSV file in UTF-8"):
        from_csv(folder / "bytes.csv")


def test_missing_files_can_be_skipped(folder: Path) -> None:
    file = write(folder, "path,label\nimages/0.png,a\ngone.png,a\nimages/1.png,b\n")
    images = ImageStore(from_csv(file, skip_bad=True), View(8), "cpu", skip_bad=True)
    assert images.table.ids == ["images/0.png", "images/1.png"]
    assert images.skipped == [("gone.png", "there is no such file")]
