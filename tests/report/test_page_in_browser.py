from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from reported_runs import CLASSES, POINTS, run_folder

from holdfast.report import write

HOSTILE = '"><script>window.hacked=1</script><img src=x onerror="window.hacked=1">'


@pytest.fixture(scope="module")
def page_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write(run_folder(tmp_path_factory.mktemp("page")))


@pytest.mark.parametrize(("width", "scheme"), [(1280, "light"), (375, "light"), (375, "dark")])
def test_a_clean_console_and_whole_pictures(page_file: Path, open_page: Callable, width: int, scheme: str) -> None:
    opened = open_page(page_file, width, scheme)
    assert opened.errors == []
    assert opened.page.evaluate("document.images.length") > 100
    assert opened.broken_images == []
    assert not opened.overflows
    assert all(url.startswith(("file:", "data:")) for url in opened.requests)


def test_hover_shows_the_picture_and_its_class(page_file: Path, open_page: Callable) -> None:
    page = open_page(page_file).page
    thumb = page.locator("#embedding-map .thumb")
    assert not thumb.is_visible()
    page.locator("#embedding-map circle").nth(7).hover(force=True)
    assert thumb.is_visible()
    assert "data:image/jpeg" in thumb.locator("i").evaluate("e => getComputedStyle(e).backgroundImage")
    shown = thumb.locator("span").inner_text()
    assert page.locator("#embedding-map circle.same").count() == POINTS // CLASSES
    assert f"{shown}: {POINTS // CLASSES} images" in page.locator("#embedding-map [aria-live]").inner_text()
    page.mouse.move(1, 1)
    assert not thumb.is_visible()


def test_the_map_by_keyboard_touch_and_list(page_file: Path, open_page: Callable) -> None:
    page = open_page(page_file, touch=True).page
    thumb = page.locator("#embedding-map .thumb")
    page.locator("#embedding-map .ground").focus()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")
    assert thumb.is_visible()
    page.keyboard.press("Escape")
    assert not thumb.is_visible()
    page.locator("#embedding-map circle").nth(3).tap(force=True)
    assert thumb.is_visible()
    page.keyboard.press("Escape")
    page.locator("#embedding-map select").select_option("2")
    assert page.locator("#embedding-map circle.same").count() == POINTS // CLASSES
    page.locator("#embedding-map input").check()
    assert page.locator("#embedding-map .tiles-on-map i.same").count() == POINTS // CLASSES


def test_dark_is_dark_and_print_is_light(page_file: Path, open_page: Callable) -> None:
    page = open_page(page_file, scheme="dark").page
    ground = "getComputedStyle(document.body).backgroundColor.match(/\\d+/g).map(Number)"
    assert max(page.evaluate(ground)) < 60
    page.emulate_media(media="print")
    assert min(page.evaluate(ground)) > 240
    assert not page.locator(".toc").is_visible()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_stands_out_from_its_ground(page_file: Path, open_page: Callable, scheme: str) -> None:
    # WCAG AA for every piece of text: 4.5, or 3 where it is large.
    weak = open_page(page_file, scheme=scheme).page.evaluate(CONTRAST)
    assert weak == []


def test_hostile_names_do_not_run(tmp_path: Path, open_page: Callable) -> None:
    opened = open_page(write(run_folder(tmp_path, label=HOSTILE)), width=375)
    opened.page.locator("#embedding-map circle").nth(7).hover(force=True)
    assert "<script>" in opened.page.locator("#embedding-map .thumb span").inner_text()
    assert opened.page.evaluate("window.hacked") is None
    assert opened.errors == []
    assert not opened.overflows


def test_very_long_names_do_not_break_the_page(tmp_path: Path, open_page: Callable) -> None:
    run = run_folder(tmp_path, name="r" * 200, label="w" * 3000)
    assert not open_page(write(run), width=375).overflows


def test_without_pictures_the_page_still_works(tmp_path: Path, open_page: Callable) -> None:
    opened = open_page(write(run_folder(tmp_path), images=False), width=375)
    opened.page.locator("#embedding-map circle").nth(7).hover(force=True)
    assert opened.page.locator("#embedding-map .thumb span").is_visible()
    assert opened.page.evaluate("document.images.length") == 0
    assert opened.errors == []
    assert not opened.overflows


CONTRAST = """
(() => {
  const parse = (text) => (text.match(/[\\d.]+/g) || []).map(Number);
  const light = ([r, g, b]) => [r, g, b].map((v) => v / 255)
    .map((v) => (v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4))
    .reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
  const ground = (element) => {
    for (let e = element; e; e = e.parentElement) {
      const colour = parse(getComputedStyle(e).backgroundColor);
      if (colour.length === 3 || colour[3] === 1) return colour;
    }
    return [255, 255, 255];
  };
  const weak = [];
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const element = walker.currentNode.parentElement;
    if (!walker.currentNode.data.trim() || element.closest("script, style, svg, .hidden-text, .skip")) continue;
    const style = getComputedStyle(element), size = parseFloat(style.fontSize), bold = Number(style.fontWeight) >= 700;
    const [a, b] = [light(parse(style.color)), light(ground(element))].sort((x, y) => y - x);
    const least = size >= 24 || (bold && size >= 18.66) ? 3 : 4.5;
    const words = walker.currentNode.data.trim().slice(0, 30);
    if ((a + 0.05) / (b + 0.05) < least) weak.push(`${element.className}: ${words}`);
  }
  return [...new Set(weak)];
})()
"""
