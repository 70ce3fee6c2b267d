from __future__ import annotations

import itertools
import json
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path

import pytest
import yaml
from reported_runs import BLOCKS, SCORES, audit, change, run_folder, write

from holdfast.errors import HoldfastError
from holdfast.report.page import make
from holdfast.report.page import write as write_page
from holdfast.report.render import SCRIPTS
from holdfast.report.sections import SECTIONS

VOID = {"meta", "img", "br", "input", "link", "hr", "wbr"}
EXHIBITS = Path("artifacts") / "exhibits.json"
HOSTILE = "\"><script>window.hacked=1</script><img src=x onerror=hacked()>'&amp;\u202eevil"


class Reader(HTMLParser):
    """Checks that tags close in order, and keeps what a test asks for."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.open: list[str] = []
        self.wrong: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        if not self.open or self.open.pop() != tag:
            self.wrong.append(tag)

    def handle_data(self, data: str) -> None:
        if not {"style", "script"} & set(self.open):
            self.text.append(data)


def read(html: str) -> Reader:
    reader = Reader()
    reader.feed(html)
    reader.close()
    assert not reader.wrong
    assert not reader.open
    return reader


def words(html: str) -> str:
    return " ".join(" ".join(read(html.replace("<wbr>", "")).text).split())


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return run_folder(tmp_path)


def test_everything_is_there_in_order(run: Path) -> None:
    page = make(run)
    assert not page.missing
    ids = [attrs["id"] for tag, attrs in read(page.html).tags if tag == "section"]
    assert ids == [section.key for section in SECTIONS if section.key not in ("natural", "others", "robust")]


def test_figures_and_findings(run: Path) -> None:
    text = words(make(run).html)
    # The headline is the whole split; the attack says that it is of a sample.
    assert "The nearest match is right 78.8 % of the time, in 3,150 searches" in text
    assert "Of 200 attacked queries, 76.0 % are right as they are, and 4.0 % after a barely visible change" in text
    assert "R@1, clean images 78.8 %" in text
    assert "38.0 (36.0–40.0)" in text  # ERS, in the tile and in the chart
    assert "Validation R@1 rose from 21.9 % to 78.2 %" in text
    assert "1 reason to read these figures with care" in text
    assert "Of 150 searches that were right, 120 go wrong after the attack" in text
    assert "nearer than two of different classes 100.0 % of the time; under attack 0.0 %" in text
    assert "undefined here: more clusters than images" in text
    assert "bring the wrong image nearer than the right one" in text
    assert "holdfast audit runs/full --data glyphs --limit 200 --seed 5" in text
    assert "stax (budget eps 8/255, steps 2)" in text


def test_a_first_look_is_called_one(run: Path) -> None:
    assert "A first look" not in words(make(run).html)
    change(run / "audit.json", quick=True)
    text = words(make(run).html)
    assert "A first look, with fewer images and steps than a full audit." in text
    assert "holdfast audit runs/full --data glyphs --limit 200 --quick --seed 5" in text


def test_withstood_bars_turn_figures_round(run: Path) -> None:
    text = words(make(run).html)
    assert "Push an image out of a search it belongs to: withstood: 40.0 (35.0–45.0) of 100" in text
    assert "The changed image fell from the top to place 60.0 of 100." in text


def test_time_is_that_of_the_log(run: Path) -> None:
    # 100 steps of 112 images at 112 images a second
    assert "Time 2 min 4 epochs of training, then 90 s of attacks" in words(make(run).html)


@pytest.mark.parametrize("name", BLOCKS)
def test_a_block_that_is_missing_becomes_one_line(run: Path, name: str) -> None:
    change(run / EXHIBITS, **{name: None}, missing={name: "too few images for this"})
    text = words(make(run).html)
    # Most models have no BatchNorm sets to drift apart; that is not worth a line.
    assert ("too few images for this" in text) == (name != "drift")


@pytest.mark.parametrize("name", [*BLOCKS, "made"])
def test_a_damaged_block_still_gives_a_page(run: Path, name: str) -> None:
    for damage in (7, "text", {"a": 1}, [1, 2], [{}], {"points": "x"}):
        change(run / EXHIBITS, **{name: damage})
        assert "78.8" in words(make(run).html)


@pytest.mark.parametrize("key", ["metrics", "intervals", "budget", "flags", "seconds", "versions", "data"])
def test_a_damaged_audit_still_gives_a_page(run: Path, key: str) -> None:
    for damage in (None, 7, "text", [], [3], {"R@1": "high", "ERS": []}):
        change(run / "audit.json", **{key: damage})
        change(run / "evaluation.json", **{key: damage})
        read(make(run).html)


def test_nothing_but_a_recipe(run: Path) -> None:
    for file in ("metrics.jsonl", "evaluation.json", "audit.json", EXHIBITS):
        (run / file).unlink()
    text = words(make(run).html)
    assert "holdfast audit runs/full --data glyphs adds this" in text
    assert "Distances, Triplet: not collected yet; holdfast report runs/full adds this" in text


def test_an_audit_alone(run: Path) -> None:
    for file in ("metrics.jsonl", "evaluation.json", "recipe.yaml", EXHIBITS):
        (run / file).unlink()
    text = words(make(run).html)
    assert "How well full finds images of glyphs" in text
    assert "77.0 %" in text
    assert "holdfast audit full --data glyphs --limit 200 --seed 5 --out runs/full" in text


def test_other_audits_are_listed(run: Path) -> None:
    other = {**audit(), "protocol": "adml", "metrics": {"R@1": 77.0, "alignment/R@1": 3.21}, "intervals": {}}
    write(run / "audit-adml-fixed.json", other)
    text = words(make(run).html)
    assert "1 further audit asks other questions" in text
    assert "R@1 of images pushed away from their class 3.2" in text


def test_a_thorough_audit_joins_the_curve(run: Path) -> None:
    curve = [{"eps": 0.0, "R@1": 76.0}, {"eps": 1 / 255, "R@1": 10.0}]
    write(run / "audit-thorough-fixed.json", {**audit(), "protocol": "thorough", "curve": curve})
    assert "worst of many attacks (thorough audit)" in words(make(run).html)


def test_not_a_run(tmp_path: Path) -> None:
    with pytest.raises(HoldfastError, match="neither a run nor an audit"):
        make(tmp_path)


def test_damaged_files_are_named(run: Path) -> None:
    (run / "evaluation.json").write_text("{", "utf-8")
    (run / "metrics.jsonl").write_text('{"step": 1\n[]\n\xff', "latin-1")
    assert "left out: evaluation.json" in words(make(run).html)


def test_hostile_names_stay_text(tmp_path: Path) -> None:
    run = run_folder(tmp_path, label=HOSTILE)
    write(run / "audit.json", audit([{"name": HOSTILE, "level": HOSTILE, "why": HOSTILE, "advice": HOSTILE}]))
    write(run / "metrics.jsonl", json.dumps({"step": 1, "epoch": 1, "loss": 1.0, HOSTILE: 2.0}) + "\n")
    reader = read(make(run).html)
    scripts = [attrs for tag, attrs in reader.tags if tag == "script"]
    assert len(scripts) == 1 + len(SCRIPTS)  # the map's data and the page's own
    assert all(not name.startswith("on") for _, attrs in reader.tags for name in attrs)
    assert HOSTILE.split("&")[0][:30] in "".join(reader.text)


def test_very_long_names_are_cut(tmp_path: Path) -> None:
    html = make(run_folder(tmp_path, label="x" * 5000)).html
    assert "x" * 100 not in words(html)


def test_many_flags_are_folded(run: Path) -> None:
    flags = [{"name": f"flag-{n}", "level": "error", "why": "w", "advice": "a"} for n in range(500)]
    write(run / "audit.json", audit(flags))
    html = make(run).html
    assert "500 reasons to read these figures with care" in words(html)
    assert html.index("flag-0<") < html.index("<details") < html.index("flag-499")


def test_without_images_no_picture_is_left(run: Path) -> None:
    page = make(run, images=False)
    assert "<img" not in page.html
    assert "data:image" not in page.html
    text = words(page.html)
    assert "Images: left out on request" in text
    assert "right: class 0" in text  # the strips still say what was found
    assert "class 0 taken for class 1" in text


@pytest.mark.parametrize("file", ["../../recipe.yaml", "/etc/passwd", "../exhibits.json", "exhibits.json", "no.png", 7])
def test_only_pictures_inside_the_folder_are_read(run: Path, file: object) -> None:
    document = json.loads((run / EXHIBITS).read_text("utf-8"))
    document["triplet"]["anchor"]["file"] = file
    write(run / EXHIBITS, document)
    before = make(run).html.count("<img")
    document["triplet"]["anchor"] = None
    write(run / EXHIBITS, document)
    assert make(run).html.count("<img") == before


def test_a_page_stays_small_and_says_what_it_left_out(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("holdfast.report.images.BUDGET", 10_000)
    html = make(run).html
    assert re.search(r"\d+ images: they would make this file too large", words(html))
    assert len(html) < 200_000


def test_the_page_forbids_itself_everything_else(run: Path) -> None:
    html = make(run).html
    policy = next(a["content"] for t, a in read(html).tags if a.get("http-equiv") == "Content-Security-Policy")
    assert policy is not None
    assert policy.startswith("default-src 'none'")
    assert "script-src 'sha256-" in policy
    for tag, attrs in read(html).tags:
        for name in ("src", "href"):
            assert (attrs.get(name) or "#").startswith(("#", "data:image/")), (tag, attrs)


def test_headings_are_in_order_and_pictures_have_words(run: Path) -> None:
    reader = read(make(run).html)
    levels = [int(tag[1]) for tag, _ in reader.tags if re.fullmatch("h[1-6]", tag)]
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(b - a <= 1 for a, b in itertools.pairwise(levels))
    assert all(attrs.get("alt") for tag, attrs in reader.tags if tag == "img")
    assert {"header", "nav", "main", "footer"} <= {tag for tag, _ in reader.tags}


def test_the_same_files_give_the_same_page(run: Path) -> None:
    assert make(run).html == make(run).html


def test_write_puts_the_page_beside_the_run(run: Path, tmp_path: Path) -> None:
    assert write_page(run) == run / "report.html"
    assert write_page(run, tmp_path / "other.html", images=False).read_text("utf-8").startswith("<!doctype html>")


def test_a_report_needs_no_torch() -> None:
    code = "import sys, holdfast.report; sys.exit(any(m in sys.modules for m in ('torch', 'numpy', 'matplotlib')))"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_an_audit_of_another_protocol_alone(run: Path) -> None:
    for file in ("metrics.jsonl", "evaluation.json", "recipe.yaml", EXHIBITS):
        (run / file).unlink()
    other = {**audit(), "protocol": "adml", "model": "holdfast/pocket-robust", "size": 32, "seed": 7}
    write(run / "audit-adml-fixed.json", {**other, "seconds": {"alignment": 45.0}})
    (run / "audit.json").unlink()
    text = words(make(run).html)
    assert "How well holdfast/pocket-robust finds images of glyphs" in text
    assert "Time 45 s spent attacking" in text
    assert "audit 7" in text
    assert "holdfast audit holdfast/pocket-robust --data glyphs --size 32 --out runs/full adds this" in text


def test_one_is_no_plural(run: Path) -> None:
    metrics = {"R@1": 100.0, "robust R@1": 0.0, **SCORES}
    robust = {"eps": 8 / 255, "norm": "linf", "queries": 1, "broken_by": {"gtm": 1}, "seconds": 1}
    change(run / "audit.json", images=1, gallery=1, metrics=metrics, robust=robust)
    change(run / "evaluation.json", images=1)
    text = words(make(run).html)
    assert "in 1 search;" in text or "in 1 search." in text
    assert "(1 query attacked)" in text
    assert "of 1 attacked query find" in text
    assert not re.findall(r"\b1 (?:[a-z]+ )?(?:images|queries|searches|steps|classes)\b", text)


@pytest.mark.parametrize(("units", "told"), [("pixel", "eps 0.03, steps 1)"), ("normalized", "units normalized)")])
def test_a_budget_says_its_units(run: Path, units: str, told: str) -> None:
    regime = {"name": "at", "budget": {"eps": 0.03, "steps": 1, "units": units}}
    recipe = (run / "recipe.yaml").read_text("utf-8")
    write(run / "recipe.yaml", yaml.safe_dump({**yaml.safe_load(recipe), "regime": regime}))
    assert told in words(make(run).html)
