"""The page of a comparison in a real browser."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from compared_runs import add_exhibits, make_run

from holdfast.report import compare
from holdfast.report.comparison import read_comparison
from holdfast.report.tables import to_csv, to_latex, to_markdown

HOSTILE = '"><script>window.hacked=1<|script><img src=x onerror="window.hacked=1">'


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    place = tmp_path_factory.mktemp("compared")
    made = [
        make_run(place / "standard", 79.0, 4.0),
        make_run(place / "hm", 66.0, 24.0, "hm", speed=100.0, passes=9.0),
        make_run(place / "mdprop", 81.0, 6.0, "mdprop", speed=150.0, passes=6.0),
    ]
    for folder, right, after in zip(made, (5, 4, 6), (0, 3, 1), strict=True):
        add_exhibits(folder, right, after, [79, 60, 31, 9, 1, 0])
    return made


@pytest.fixture(scope="module")
def page_file(folders: list[Path]) -> Path:
    return compare(folders, folders[0].parent / "compare.html")


@pytest.mark.parametrize(("width", "scheme"), [(1280, "light"), (375, "light"), (1280, "dark")])
def test_a_clean_console_and_whole_pictures(page_file: Path, open_page: Callable, width: int, scheme: str) -> None:
    opened = open_page(page_file, width, scheme)
    assert opened.errors == []
    assert opened.page.evaluate("document.images.length") == 2 * (1 + 3 * 13)
    assert opened.broken_images == []
    assert not opened.overflows
    assert all(url.startswith(("file:", "data:")) for url in opened.requests)


def test_buttons_hand_over_the_table(folders: list[Path], page_file: Path, open_page: Callable) -> None:
    opened = open_page(page_file)
    page, table = opened.page, read_comparison(folders).table
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    for word, written in (("Markdown", to_markdown(table)), ("LaTeX", to_latex(table))):
        page.get_by_role("button", name=f"Copy {word}").click()
        page.get_by_text("copied").wait_for()
        assert page.evaluate("navigator.clipboard.readText()") == written
    with page.expect_download() as waiting:
        page.get_by_role("button", name="Download CSV: comparison.csv").click()
    assert waiting.value.suggested_filename == "comparison.csv"
    assert Path(waiting.value.path()).read_text("utf-8") == to_csv(table)
    assert opened.errors == []


def test_names_in_the_plot_cover_nothing(page_file: Path, open_page: Callable) -> None:
    page = open_page(page_file).page
    boxes = page.evaluate(
        "[...document.querySelectorAll('.label.name')].map(e => e.getBoundingClientRect())"
        ".map(r => [r.left, r.top, r.right, r.bottom])"
    )
    assert len(boxes) == 3
    for i, a in enumerate(boxes):
        for b in boxes[:i]:
            assert a[0] >= b[2] or b[0] >= a[2] or a[1] >= b[3] or b[1] >= a[3]


def test_hostile_and_long_names_do_not_run_or_overflow(tmp_path: Path, open_page: Callable) -> None:
    folders = [make_run(tmp_path / HOSTILE, regime=HOSTILE), make_run(tmp_path / ("w" * 200), regime="m" * 300)]
    for width in (375, 1280):
        opened = open_page(compare(folders, tmp_path / "compare.html"), width=width)
        assert opened.page.evaluate("window.hacked") is None
        assert opened.errors == []
        assert not opened.overflows
