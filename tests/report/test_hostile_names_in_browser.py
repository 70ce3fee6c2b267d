"""Every page that shows names from files, opened in a browser: nothing runs, nothing breaks out, text stays text."""

from __future__ import annotations

import copy
import itertools
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from compared_runs import add_exhibits, make_run
from reported_runs import run_folder

from holdfast.data import ImageTable
from holdfast.data.sources import ArraySource
from holdfast.models.card import write_card
from holdfast.report import compare, write
from holdfast.search.page import strip_page
from holdfast.search.querying import Answer, Hit, TamperVerdict
from holdfast_studies import leaderboard
from holdfast_studies.page import write_page

ROOT = Path(__file__).resolve().parents[2]
HOSTILE = (
    '"><script>window.hacked=1</script>',
    '<img src=x onerror="window.hacked=1">',
    "</title></style></script><svg onload=window.hacked=1>",
    "' onfocus='window.hacked=1' autofocus='",
    "[x](javascript:window.hacked=1)",
    "![x](y.png){: onerror=window.hacked=1 }",
    "x {: onmouseover=window.hacked=1 style=position:fixed }",
    "<javascript:window.hacked=1>",
    "{{ 7 * 7 }} ${7*7}",
    "&lt;b&gt; &#60;i&#62;",
    "*bold* `code` <?php x ?> a\\|b",
)


def names() -> Iterator[str]:
    """One after the other, without end."""
    return itertools.cycle(HOSTILE)


FOUND = """
() => {
  const all = [...document.querySelectorAll("*")];
  const named = all.flatMap((e) => e.getAttributeNames().map((name) => [e.tagName, name]));
  const handlers = named.filter(([, name]) => name.startsWith("on")).map((pair) => pair.join(" "));
  const links = all.filter((e) => /^\\s*javascript:/i.test(e.getAttribute("href") || e.getAttribute("src") || ""));
  const scripts = [...document.scripts].filter((s) => s.type !== "application/json" && s.text.includes("hacked"));
  const styled = all.filter((e) => getComputedStyle(e).position === "fixed" && /hacked/.test(e.outerHTML));
  return [...handlers, ...[...links, ...scripts, ...styled].map((e) => e.outerHTML.slice(0, 200))];
}
"""


def assert_harmless(opened: Any, shown: tuple[str, ...] = ()) -> None:
    """Nothing of a name was taken for code, and these names can be read on the page as they are."""
    page = opened.page
    for element in page.locator("td, a, img, circle, summary").all()[:60]:
        element.dispatch_event("mouseover")
    assert page.evaluate("window.hacked") is None
    assert page.evaluate(FOUND) == []
    assert opened.errors == []
    assert all(url.startswith(("file:", "data:")) for url in opened.requests)
    text = " ".join(page.evaluate("document.documentElement.textContent").split())
    assert [name for name in shown if " ".join(name.split()) not in text] == []


def poisoned(value: Any, word: Iterator[str], keep: tuple[str, ...] = ("file", "protocol", "mode", "level")) -> Any:
    """The same document with a hostile string for every string, but for the keys that choose what is shown."""
    if isinstance(value, dict):
        return {key: inner if key in keep else poisoned(inner, word, keep) for key, inner in value.items()}
    if isinstance(value, list):
        return [poisoned(inner, word, keep) for inner in value]
    return next(word) if isinstance(value, str) else value


def test_the_report_of_a_strangers_run(tmp_path: Path, open_page: Callable) -> None:
    run, word = run_folder(tmp_path), names()
    for name in ("evaluation.json", "audit.json", "artifacts/exhibits.json"):
        (run / name).write_text(json.dumps(poisoned(json.loads((run / name).read_text()), word)))
    recipe = yaml.safe_load((run / "recipe.yaml").read_text())
    (run / "recipe.yaml").write_text(yaml.safe_dump(poisoned(recipe, word)))
    exhibits = json.loads((run / "artifacts" / "exhibits.json").read_text())
    shown = tuple(sample["label"] for sample in exhibits["data_card"]["samples"])
    assert set(shown) <= set(HOSTILE)
    opened = open_page(write(run))
    opened.page.locator("#embedding-map circle").nth(3).hover(force=True)
    assert_harmless(opened, shown)


def test_a_comparison_of_runs_by_these_names(tmp_path: Path, open_page: Callable) -> None:
    folders = []
    for number, name in enumerate(HOSTILE[:4]):
        folder = make_run(tmp_path / name.replace("/", "\u2215"), regime=name, seed=number)
        add_exhibits(folder, 4, 1, [79, 60, 31, 9, 1, 0])
        document = folder / "artifacts" / "exhibits.json"
        document.write_text(json.dumps(poisoned(json.loads(document.read_text()), names())))
        folders.append(folder)
    opened = open_page(compare(folders, tmp_path / "compare.html"))
    assert_harmless(opened, tuple(folder.name for folder in folders))


def test_the_answers_of_a_search(tmp_path: Path, open_page: Callable) -> None:
    pictures = ArraySource(np.zeros((len(HOSTILE), 8, 8, 3), np.uint8))
    table = ImageTable.of(pictures, classes=HOSTILE, splits=["gallery"] * len(HOSTILE), ids=HOSTILE, name="images")
    matches = tuple(Hit(id=name, label=name, distance=0.5) for name in HOSTILE)
    answers = [Answer(name, matches, TamperVerdict(True, (name,))) for name in HOSTILE]
    file = tmp_path / "strip.html"
    file.write_text(strip_page(answers, table, table, HOSTILE[0]), "utf-8")
    assert_harmless(open_page(file), HOSTILE)


Render = Callable[[str], str]


@pytest.fixture(params=["CommonMark", "the site"])
def render(request: pytest.FixtureRequest) -> Render:
    """Markdown to HTML as GitHub and the hub do it, and as the site does."""
    if request.param == "CommonMark":
        engine = pytest.importorskip("markdown_it").MarkdownIt("commonmark").enable("table")
        return lambda text: _page(engine.render(text))
    markdown = pytest.importorskip("markdown", reason="the site needs pip install '.[docs]'")
    pytest.importorskip("pymdownx")
    listed = yaml.safe_load((ROOT / "mkdocs.yml").read_text("utf-8"))["markdown_extensions"]
    options: dict[str, Any] = {k: v for one in listed if isinstance(one, dict) for k, v in one.items()}
    extensions = [one if isinstance(one, str) else next(iter(one)) for one in listed]
    return lambda text: _page(markdown.markdown(text, extensions=extensions, extension_configs=options))


def _page(body: str) -> str:
    return f'<!doctype html><html lang="en"><meta charset="utf-8"><title>x</title><body>{body}</body></html>'


def test_the_page_of_studies(tmp_path: Path, open_page: Callable, render: Render) -> None:
    whole = json.loads((ROOT / "docs" / "results" / "raw" / "pocket" / "A1.json").read_text("utf-8"))
    word, raw = names(), tmp_path / "raw"
    for arm in whole["arms"].values():
        arm["job"] = {**arm["job"], "backbone": next(word), "data": next(word)}
        for cell in arm["cells"]:
            cell["stopped"] = next(word)
            cell["place"] = {"device": next(word), "versions": {next(word): next(word)}, "files": [next(word)]}
    raw.mkdir()
    (raw / "A1.json").write_text(json.dumps(poisoned_texts(whole, word)))
    write_page("pocket", raw, tmp_path / "page.md", tmp_path / "figures")
    file = tmp_path / "page.html"
    file.write_text(render((tmp_path / "page.md").read_text("utf-8")), "utf-8")
    shown = {cell["place"]["device"] for arm in whole["arms"].values() for cell in arm["cells"]}
    shown |= {arm["job"]["backbone"] for arm in whole["arms"].values() if arm["cells"]}
    assert_harmless(open_page(file), tuple(shown))


def poisoned_texts(whole: dict[str, Any], word: Iterator[str]) -> dict[str, Any]:
    """The raw file with its own words on the study replaced, too."""
    changed = {key: next(word) for key in ("title", "source", "published", "notes")}
    return {**whole, **changed, "verdicts": poisoned(whole["verdicts"], word)}


def test_the_leaderboard(tmp_path: Path, open_page: Callable, render: Render) -> None:
    scores = dict.fromkeys(("CA+", "CA-", "QA+", "QA-", "TMA", "ES:D", "ES:R", "LTM", "GTM", "GTT"), 0.5) | {
        "ERS": 32.8
    }
    record: dict[str, Any] = {
        "schema": 1,
        "dim": 512,
        "epochs": 20,
        "seeds": [0, 1],
        "clean": {"R@1": 24.6, "NMI": 42.4, "mAP@R": 5.4},
        "ers": {"fixed": scores, "published": scores, "limit": 300},
        "cost": {"passes": 9.0, "seconds": 727.7},
    }
    word, records = names(), []
    for _ in HOSTILE:
        other = copy.deepcopy(record)
        for key in ("name", "method", "data", "backbone", "weights", "recipe_digest", "holdfast", "submitted_by"):
            other[key] = next(word)
        other["cost"]["hardware"] = next(word)
        assert leaderboard.validate(other) == []
        records.append(other)
    file = tmp_path / "board.html"
    file.write_text(render(leaderboard.page_text(records)), "utf-8")
    opened = open_page(file)
    assert_harmless(opened, HOSTILE)
    widths = """[...document.querySelectorAll('table')].map(
        (table) => [...table.rows].every((row) => row.cells.length === table.rows[0].cells.length))"""
    assert opened.page.evaluate(widths) == [True] * len(HOSTILE), "a table for each of the datasets"


def test_the_card_of_a_model(tmp_path: Path, open_page: Callable) -> None:
    engine = pytest.importorskip("markdown_it").MarkdownIt("commonmark").enable("table")
    flags = [{"name": name, "level": "warning", "why": name, "advice": name} for name in HOSTILE]
    run = make_run(tmp_path / "run", flags=flags, audit={"budget": {"eps_normalized": 0.15}})
    for name in ("evaluation.json", "recipe.yaml"):
        document = poisoned(yaml.safe_load((run / name).read_text()), names())
        (run / name).write_text(json.dumps(document) if name.endswith("json") else yaml.safe_dump(document))
    text = write_card(run).read_text("utf-8").split("---\n", 2)[2]
    file = tmp_path / "card.html"
    file.write_text(_page(engine.render(text)), "utf-8")
    assert_harmless(open_page(file), tuple(name for name in HOSTILE if "`" not in name and "&" not in name))
