"""The page of a server, in a real browser."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from served import COUNT, png, served

from holdfast.search import IndexedImages, Searcher, read_index
from holdfast.serve import GalleryImages, Service
from index_cases import picture_table, pictures, small_model

HOSTILE = '<img src=x onerror="window.hacked=1">'
Open = Callable[..., Any]


@pytest.fixture(scope="module")
def port(service: Service) -> Iterator[int]:
    with served(service, gallery=GalleryImages(picture_table(pictures(COUNT)), service.model.view)) as found:
        yield found


@pytest.fixture
def image(tmp_path: Path) -> Path:
    file = tmp_path / "mine.png"
    file.write_bytes(png(pictures(COUNT)[3]))
    return file


def slide(page: Any, value: float) -> None:
    """Move the slider, as an arrow key does."""
    page.locator("#eps").evaluate(f"(e) => {{ e.value = {value}; e.dispatchEvent(new Event('input')); }}")


def test_an_image_finds_its_neighbours_and_an_attack_changes_them(open_page: Open, port: int, image: Path) -> None:
    opened = open_page(f"http://127.0.0.1:{port}/")
    page = opened.page
    page.set_input_files("#file", str(image))
    page.wait_for_selector("section ol li")
    assert page.locator("section ol li").count() == 10
    assert "1. class 3" in page.locator("section ol li").first.inner_text()
    assert page.locator("section .was").count() == 0
    page.evaluate("Promise.all([...document.images].filter((i) => !i.hidden).map((i) => i.decode()))")
    assert opened.broken_images == []
    slide(page, 16)
    page.wait_for_selector(".query figcaption:has-text('attacked, 16/255')")
    assert page.locator("#told").inner_text() == "16/255"
    assert re.search(r"\d+ of 10 neighbours stayed", page.locator("#status").inner_text())
    assert page.locator("section .was").count() > 0
    assert page.locator(".query img").get_attribute("src").startswith("data:image/png")
    slide(page, 0)
    page.wait_for_selector(".query figcaption:has-text('as it is')")
    assert page.locator("section .was").count() == 0
    assert opened.errors == []
    assert all(url.startswith((f"http://127.0.0.1:{port}/", "blob:", "data:")) for url in opened.requests)


def test_by_keyboard_alone(open_page: Open, port: int) -> None:
    page = open_page(f"http://127.0.0.1:{port}/").page
    page.wait_for_selector("#samples button img")
    page.locator("#file").focus()
    for _ in range(10):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.closest('#samples') !== null"):
            break
    page.keyboard.press("Enter")
    page.wait_for_selector("section ol li")
    page.locator("#eps").focus()
    page.keyboard.press("End")
    page.wait_for_selector(".query figcaption:has-text('attacked, 16/255')")


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [320, 1280])
def test_it_fits_and_can_be_read(open_page: Open, port: int, image: Path, width: int, scheme: str) -> None:
    opened = open_page(f"http://127.0.0.1:{port}/", width=width, scheme=scheme)
    page = opened.page
    page.set_input_files("#file", str(image))
    page.wait_for_selector("section ol li")
    assert not opened.overflows
    assert page.evaluate("[...document.images].every((i) => i.alt)")
    named = "(e) => e.labels.length > 0 || e.getAttribute('aria-label')"
    assert page.evaluate(f"[...document.querySelectorAll('input')].every({named})")
    assert page.locator("[role=status]").count() == page.locator("h1").count() == 1


def test_what_is_no_image_is_said(open_page: Open, port: int, tmp_path: Path) -> None:
    (tmp_path / "no.png").write_text("no image")
    page = open_page(f"http://127.0.0.1:{port}/").page
    page.set_input_files("#file", str(tmp_path / "no.png"))
    page.wait_for_selector("#wrong:visible")
    assert "no image" in page.locator("#wrong").inner_text()


def test_it_asks_for_the_token(open_page: Open, service: Service, image: Path) -> None:
    with served(service, token="open sesame") as port:
        page = open_page(f"http://127.0.0.1:{port}/").page
        page.wait_for_selector("#token:visible")
        assert not page.locator("#main").is_visible()
        page.fill("#secret", "wrong")
        page.keyboard.press("Enter")
        page.wait_for_timeout(300)
        assert not page.locator("#main").is_visible()
        page.fill("#secret", "open sesame")
        page.keyboard.press("Enter")
        page.wait_for_selector("#main:visible")
        page.set_input_files("#file", str(image))
        page.wait_for_selector("section ol li")


def test_hostile_names_stay_text(open_page: Open, folder: Path, image: Path) -> None:
    index = read_index(folder)
    names = [f"{HOSTILE}{row}" for row in range(len(index))]
    images = IndexedImages(names, [HOSTILE] * len(index), [""] * len(index), index.images.fingerprints)
    index = dataclasses.replace(index, images=images)
    with served({HOSTILE: Service(Searcher(index), small_model())}) as port:
        opened = open_page(f"http://127.0.0.1:{port}/")
        opened.page.set_input_files("#file", str(image))
        opened.page.wait_for_selector("section ol li")
        assert HOSTILE in opened.page.locator("section ol li").first.inner_text()
        assert opened.page.evaluate("window.hacked") is None
