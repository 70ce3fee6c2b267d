from __future__ import annotations

from holdfast.data.table import NOTHING, SkippedFiles, extensions, few


def test_nothing_is_nothing() -> None:
    assert not NOTHING
    assert str(NOTHING) == "nothing"
    assert NOTHING.counts() == {"no_images": 0, "unplaced": 0, "links": 0, "unnamed": 0, "hidden": 0}


def test_hidden_files_alone_are_no_reason_to_speak() -> None:
    passed = SkippedFiles(hidden=(".DS_Store",))
    assert not passed
    assert str(passed) == "1 file is hidden or of the system (.DS_Store)"


def test_one_line_with_numbers_reasons_and_examples() -> None:
    passed = SkippedFiles(no_images=("a.heic", "b.HEIC", "c.txt"), unplaced=("x.jpg",), hidden=(".a", ".b", ".c"))
    assert passed
    assert str(passed) == (
        "3 files are no image by extension (.heic 2, .txt 1: a.heic, b.HEIC, ...); "
        "1 image is in no class folder or list (x.jpg); 3 files are hidden or of the system (.a, .b, ...)"
    )


def test_many_kinds_are_not_all_counted() -> None:
    names = [*(f"{n}.a" for n in range(5)), "x.b", "y.b", "z.c", "u.d", "v.e", "README"]
    assert extensions(names) == ".a 5, .b 2, .c 1, others 3: 0.a, 1.a, ..."


def test_names_are_only_shown() -> None:
    assert few(["\x1b[31m", "a\nb"]) == "\\x1b[31m, a b"
    assert extensions(["x.\x1b[1m"]) == ".\\x1b[1m 1: x.\\x1b[1m"
