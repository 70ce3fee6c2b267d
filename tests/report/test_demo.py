"""The demo: three models, a page on each and one on all. It lies here because its pages are opened in the browser."""

from __future__ import annotations

import json
import os
import re
import webbrowser
from collections.abc import Callable
from pathlib import Path

import pytest

from holdfast.cli import main
from holdfast.cli.demo import summary
from holdfast.cli.entry import parser
from holdfast.demo import MODELS, Demo, demo
from holdfast.evaluation import read_table
from holdfast.search import read_index
from holdfast.training import load_recipe

LARGEST = 8_000_000
SMALL = ["data.characters=40", "data.per_class=6", "batch.classes=6", "epochs=2", "evaluate_every=1"]
SMALL += ["model.size=16", "model.canvas=16"]
LIMIT = 20


def small_demo(out: Path) -> Demo:
    """Everything that `holdfast demo` does, on less."""
    return demo(out, SMALL, LIMIT)


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory) -> Demo:
    return small_demo(tmp_path_factory.mktemp("demo"))


def test_three_models_are_compared_on_one_page_that_links_to_their_own(done: Demo) -> None:
    assert list(done.models) == ["standard", "hm", "mdprop"]
    page = done.page.read_text("utf-8")
    for name, shown in done.models.items():
        assert shown.report == done.page.parent / name / "report.html"
        assert f'href="{name}/report.html"' in page
    assert "conv-tiny, a small net; 2 epochs each, after 2 of plain training that all share; " in page
    assert f"{LIMIT} attacked images per model" in page
    for file in (done.page, *(shown.report for shown in done.models.values())):
        assert file.stat().st_size < LARGEST


def test_its_indexes_can_be_served(done: Demo) -> None:
    assert [folder.name for folder in done.indexes] == ["standard.index", "hm.index"]
    for folder in done.indexes:
        index = read_index(folder)
        assert index.model.reference == folder.stem
        assert index.model.audit["metrics"]["robust R@1"] == done.models[folder.stem].robust
        assert set(index.images.ids) <= set(read_table("glyphs", False)[0].ids), "names that --gallery glyphs knows"
    served = summary(done).splitlines()[-1].partition(":")[2].split()
    assert served[:2] == ["holdfast", "serve"]
    assert parser().parse_args(served[1:]).index == [str(folder) for folder in done.indexes]


def test_the_browser_shows_all_of_it(done: Demo, open_page: Callable) -> None:
    opened = open_page(done.page)
    for name, shown in done.models.items():
        opened.page.goto(done.page.as_uri())
        opened.page.locator(f'a[href="{name}/report.html"]').first.click()
        opened.page.wait_for_url(shown.report.as_uri())
        assert opened.page.evaluate("document.images.length") > 20
        assert opened.broken_images == []
        thumb = opened.page.locator("#embedding-map .thumb")
        assert not thumb.is_visible()
        opened.page.locator("#embedding-map circle").nth(3).hover(force=True)
        assert thumb.is_visible()
    assert opened.errors == []
    assert all(url.startswith(("file:", "data:")) for url in opened.requests)


@pytest.mark.parametrize("width", [1280, 375])
def test_the_comparison_in_the_browser(done: Demo, open_page: Callable, width: int) -> None:
    opened = open_page(done.page, width)
    assert opened.errors == []
    assert opened.broken_images == []
    assert not opened.overflows
    text = opened.page.inner_text("body")
    assert all(name in text for name in done.models)


def test_figures_are_those_on_disk(done: Demo) -> None:
    for shown in done.models.values():
        evaluation = json.loads((shown.run / "evaluation.json").read_text("utf-8"))
        audit = json.loads((shown.run / "audit.json").read_text("utf-8"))
        assert shown.recall == evaluation["metrics"]["R@1"]
        assert shown.ers == audit["metrics"]["ERS"]
        assert list(shown.ers_interval) == audit["intervals"]["ERS"]
        assert audit["images"] == LIMIT
        assert shown.seconds > 0


def test_only_the_regime_differs() -> None:
    recipes = [load_recipe(f"demo-{name}").plain() for name in MODELS]
    assert [recipe["regime"]["name"] for recipe in recipes] == list(MODELS)
    for recipe in recipes:
        assert {key for key in recipe if recipe[key] != recipes[0][key]} <= {"regime"}


def test_a_second_call_takes_what_is_there_and_a_third_mends_it(done: Demo) -> None:
    kept = [file for shown in done.models.values() for file in shown.run.rglob("*.json")]
    times = {file: file.stat().st_mtime_ns for file in kept}
    again = small_demo(done.page.parent)
    assert again.models == done.models
    assert {file: file.stat().st_mtime_ns for file in kept} == times
    (done.models["hm"].run / "audit.json").unlink()
    assert small_demo(done.page.parent).models == done.models


def test_another_number_of_attacked_images_and_a_newer_model_are_other_audits(
    done: Demo, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Attacked(Exception):
        pass

    def attack(*arguments: object, **options: object) -> None:
        raise Attacked

    monkeypatch.setattr("holdfast.audit.run", attack)
    with pytest.raises(Attacked):
        demo(done.page.parent, SMALL, LIMIT + 1)
    small_demo(done.page.parent)
    file = done.models["standard"].run / "evaluation.json"
    before = file.stat()
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns + 10**12))
    with pytest.raises(Attacked):
        small_demo(done.page.parent)
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))


@pytest.fixture
def told(done: Demo, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The command without the work; what it asks the browser to open."""
    opened: list[str] = []
    monkeypatch.setattr("holdfast.demo.demo", lambda out: done)
    monkeypatch.setattr(webbrowser, "open", opened.append)
    return opened


def test_the_command_prints_a_table_and_where_the_page_is(
    done: Demo, told: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["demo"]) == 0
    text = capsys.readouterr().out
    for name, shown in done.models.items():
        assert re.search(rf"^{name} .*{round(shown.seconds)}$", text, re.MULTILINE)
    assert str(done.page) in text
    assert told == []


def test_the_browser_opens_only_when_asked(done: Demo, told: list[str]) -> None:
    assert main(["demo", "--open"]) == 0
    assert told == [done.page.resolve().as_uri()]


@pytest.mark.usefixtures("told")
def test_json(done: Demo, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["demo", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["page"] == str(done.page)
    assert {name: model["ers"] for name, model in found["models"].items()} == {
        name: shown.ers for name, shown in done.models.items()
    }


@pytest.mark.slow
def test_the_whole_demo_teaches_its_lesson(tmp_path: Path, record_property: pytest.RecordProperty) -> None:
    """HM is far more robust than plain training, MDProp in between; none gives up much of its retrieval."""
    whole = demo(tmp_path / "demo")
    record_property("seconds", whole.seconds)
    print(f"the demo took {whole.seconds:.0f} s")
    standard, hm, mdprop = whole.models.values()
    assert hm.ers_interval[0] > mdprop.ers_interval[1]
    assert mdprop.ers_interval[0] > standard.ers_interval[1]
    assert min(hm.recall, mdprop.recall) > standard.recall - 10
