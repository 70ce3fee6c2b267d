"""How pages are laid out on a phone and a desk: no word breaks, and no table hides columns without saying so."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from compared_runs import add_exhibits, make_run
from reported_runs import natural_audit, robust_audit, run_folder
from reported_runs import write as write_file

from holdfast.report import compare, write

NAME = "043.Bentley_Continental_Supersports_Conv._Convertible_2012"
ERROR = {"name": "masked-gradient", "level": "error", "why": "70.0; 0.5 past x + 0.02 sin(900 x)", "advice": "audit it"}
BROKEN_WORDS = """
() => {
  document.querySelectorAll("details").forEach((e) => { e.open = true; });
  const broken = [], range = document.createRange();
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const node = walker.currentNode;
    if (node.parentElement.closest("script, style, .hidden-text, select")) continue;
    for (const word of node.data.matchAll(/[\\p{L}\\p{N}]+(?:\\s%)?/gu)) {
      range.setStart(node, word.index);
      range.setEnd(node, word.index + word[0].length);
      const lines = [...range.getClientRects()].map((box) => box.top);
      if (Math.max(...lines) - Math.min(...lines) > 4) broken.push(`${word[0]} in ${node.data.trim().slice(0, 60)}`);
    }
  }
  return broken;
}
"""
SILENT_TABLES = """
() => [...document.querySelectorAll("table")].filter((table) => {
  const frame = table.closest(".scroll"), cells = [...table.querySelectorAll("th, td")];
  if (!frame || cells.some((cell) => getComputedStyle(cell).display !== "table-cell")) return true;
  if (frame.scrollWidth - frame.clientWidth <= 1) return false;
  const note = frame.previousElementSibling;
  return !note.matches(".goes-on") || !note.checkVisibility() || !/more column/.test(note.textContent);
}).map((table) => table.textContent.trim().slice(0, 80))
"""


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    run = run_folder(tmp_path_factory.mktemp("layout"), "runs/mobilenet_v2-multi-similarity", NAME)
    write_file(run / "audit.json", robust_audit(70.0, [ERROR]))
    write_file(run / "audit-natural-fixed.json", natural_audit())
    return write(run)


@pytest.fixture(scope="module")
def comparison(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("layout")
    names = ("mobilenet_v2-multi-similarity", "mobilenet_v2-margin-distance", "resnet50-hardness-manipulation")
    flags = ([], [], [ERROR])
    folders = [
        make_run(place / name, 70.0 + n, 4.0 + n, "hm", seed=n, robust=3.0 * n, flags=flags[n])
        for n, name in enumerate(names)
    ]
    for folder in folders:
        add_exhibits(folder, 5, 1, [79, 60, 31, 9, 1, 0])
        file = folder / "artifacts" / "exhibits.json"
        file.write_text(file.read_text("utf-8").replace("class 0", NAME).replace("class 1", "Eastern_Towhee"), "utf-8")
    return compare(folders, place / "compare.html")


@pytest.fixture(params=["report", "comparison"])
def page(request: pytest.FixtureRequest) -> Path:
    found: Path = request.getfixturevalue(request.param)
    return found


@pytest.mark.parametrize(("width", "scheme"), [(1280, "light"), (390, "light"), (390, "dark")])
def test_no_word_breaks_and_no_table_hides_columns(page: Path, open_page: Callable, width: int, scheme: str) -> None:
    opened = open_page(page, width, scheme)
    assert opened.page.evaluate(BROKEN_WORDS) == []
    assert not opened.overflows
    opened.page.wait_for_timeout(50)  # what was folded is measured in the next frame
    assert opened.page.evaluate(SILENT_TABLES) == []
    assert opened.errors == []


def test_the_checks_see_what_they_look_for(report: Path, open_page: Callable) -> None:
    page = open_page(report, 390).page
    assert page.locator(".goes-on:visible").count() > 0  # the case must hold a table that is too wide
    page.evaluate("document.querySelectorAll('.goes-on').forEach((e) => e.remove())")
    assert page.evaluate(SILENT_TABLES)
    page.add_style_tag(content="h2 { width: 3em; overflow-wrap: anywhere; }")
    assert page.evaluate(BROKEN_WORDS)


def test_a_class_table_is_sorted_from_the_keyboard(report: Path, open_page: Callable) -> None:
    page = open_page(report).page
    head, first = page.locator("#classes thead th").nth(2), page.locator("#classes tbody tr th").first
    assert head.get_attribute("aria-sort") == "ascending"
    assert first.inner_text() == f"{NAME} 0"
    head.locator("button").focus()
    page.keyboard.press("Enter")
    assert head.get_attribute("aria-sort") == "descending"
    assert first.inner_text() == f"{NAME} 5"
    page.locator("#classes thead th").nth(5).locator("button").click()
    assert page.locator("#classes [aria-sort]").count() == 1
    assert first.inner_text() == f"{NAME} 5"  # confused once, the others more often


def test_images_enlarge_and_arrows_go_on(report: Path, open_page: Callable) -> None:
    page = open_page(report).page
    dialog = page.locator("dialog.lens")
    page.locator("#failures .pic").nth(1).click()
    assert dialog.is_visible()
    assert "(2 of 6)" in dialog.inner_text()
    assert dialog.locator("img").bounding_box()["width"] >= 300
    page.keyboard.press("ArrowRight")
    assert "(3 of 6)" in dialog.inner_text()
    page.keyboard.press("Escape")
    assert not dialog.is_visible()
    page.locator("#failures .pic").first.focus()
    page.keyboard.press("Enter")
    assert "(1 of 6)" in dialog.inner_text()


def test_tables_and_charts_are_saved_from_the_page(report: Path, open_page: Callable) -> None:
    opened = open_page(report)
    page = opened.page
    with page.expect_download() as waiting:
        page.locator("#classes").get_by_role("button", name="Download CSV").click()
    lines = Path(waiting.value.path()).read_text("utf-8").splitlines()
    assert waiting.value.suggested_filename == "classes.csv"
    assert lines[0] == 'Class,Images,"R@1, %","mAP@R, %",Most often taken for,Times'
    assert lines[1] == f"{NAME} 0,10,40.0,30.0,{NAME} 5,6"
    with page.expect_download() as waiting:
        page.locator("#eps").get_by_role("button", name="Download SVG").click()
    drawn = open_page(Path(waiting.value.path()).rename(report.with_name("eps.svg")))
    assert waiting.value.suggested_filename == "eps.svg"
    assert drawn.page.evaluate("document.documentElement.tagName") == "svg"
    words = drawn.page.evaluate("document.documentElement.textContent")
    assert all(word in words for word in ("76.0", "4.0", "percent"))
    every = page.locator(".scroll").count(), page.locator(".drawing").count()
    assert every == tuple(
        page.get_by_role("button", name=f"Download {kind}", include_hidden=True).count() for kind in ("CSV", "SVG")
    )
    assert opened.errors == []


def test_formulas_in_names_are_not_computed(tmp_path: Path, open_page: Callable) -> None:
    page = open_page(write(run_folder(tmp_path, label='=HYPERLINK("x")'))).page
    with page.expect_download() as waiting:
        page.locator("#classes").get_by_role("button", name="Download CSV").click()
    assert Path(waiting.value.path()).read_text("utf-8").splitlines()[1].startswith(""""'=HYPERLINK(""x"")""")


def test_without_scripts_everything_is_still_read(report: Path, browser: object) -> None:
    context = browser.new_context(java_script_enabled=False)  # type: ignore[attr-defined]
    try:
        page = context.new_page()
        page.goto(report.resolve().as_uri())
        assert page.locator("#classes tbody tr").count() == 6
        assert page.locator("#failures .pic").first.is_visible()
        assert page.locator(".save, .sort, dialog").count() == 0
    finally:
        context.close()
