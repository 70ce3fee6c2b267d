"""The page of a comparison, and the command that writes it."""

from __future__ import annotations

import csv
import io
import itertools
import json
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from compared_runs import add_exhibits, ers_audit, make_run, with_robust

from holdfast.cli import main
from holdfast.report.compare_page import compare
from holdfast.report.render import SCRIPTS

HOSTILE = "<script>alert(1)</script>\"'&{{7*7}}\u202e"
VOID = {"meta", "img", "br", "input", "link", "hr"}


class Reader(HTMLParser):
    """Tags, attributes and text of a page; fails where tags do not close in order."""

    def __init__(self, page: str) -> None:
        super().__init__(convert_charrefs=True)
        self.open: list[str] = []
        self.seen: list[tuple[str, dict[str, str | None]]] = []
        self.text: list[str] = []
        self.feed(page)
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if not {"script", "style"} & set(self.open):
            self.text.append(data)

    def by(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.seen if name == tag]


@pytest.fixture
def folders(tmp_path: Path) -> list[Path]:
    flag = {"name": "gradient-masking", "level": "warning", "why": "search beats gradients", "advice": "be thorough"}
    made = [
        make_run(tmp_path / "runs" / "standard", 79.0, 4.0),
        make_run(tmp_path / "runs" / "hm", 66.0, 24.0, "hm", speed=100.0, passes=9.0, flags=[flag]),
    ]
    add_exhibits(made[0], 5, 0, [79, 60, 31, 9, 1, 0])
    add_exhibits(made[1], 4, 3, [66, 64, 61, 52, 37, 12])
    return made


def read(folders: list[Path], out: Path, **arguments: Any) -> tuple[Reader, str]:
    text = compare(folders, out, **arguments).read_text("utf-8")
    page = Reader(text.replace("<wbr>", ""))
    return page, " ".join(" ".join(page.text).split())


def test_page_says_what_was_found(folders: list[Path], tmp_path: Path) -> None:
    page, text = read(folders, tmp_path / "compare.html")
    assert "standard finds most (R@1 79.0); hm withstands most (ERS 24.0)." in text
    assert "From standard to hm: 20.0 more ERS for 13.0 less R@1" in text
    assert "They differ most at 4/255 per pixel: hm keeps an R@1 of 52.0, standard 9.0" in text
    assert "search beats gradients" in text
    assert "regime.name" in text
    assert "epochs: 24" not in text
    ids = [attributes["id"] for _, attributes in page.seen if "id" in attributes]
    assert len(ids) == len(set(ids))
    assert all((link["href"] or "").removeprefix("#") in ids for link in page.by("a"))


def test_orders_that_may_be_chance_are_doubted(folders: list[Path], tmp_path: Path) -> None:
    _, sure = read(folders, tmp_path / "compare.html")
    assert "may be chance" not in sure
    for folder, ends in zip(folders, ([70.0, 85.0], [60.0, 71.0]), strict=True):
        file = folder / "evaluation.json"
        file.write_text(json.dumps({**json.loads(file.read_text()), "intervals": {"R@1": ends}}))
    _, text = read(folders, tmp_path / "compare.html")
    assert "hm withstands most (ERS 24.0)." in text
    assert "finds most" not in text
    assert "The R@1 interval of standard overlaps that of hm: their order may be chance." in text
    assert "The ERS interval" not in text
    (folders[0] / "audit.json").write_text(json.dumps(ers_audit(22.0, {}, [])))
    _, text = read(folders, tmp_path / "compare.html")
    assert "The ERS interval of hm overlaps that of standard: their order may be chance." in text


def test_robust_recall_ranks_where_all_have_it(tmp_path: Path) -> None:
    made = [make_run(tmp_path / "a", 79.0, 36.0, robust=0.0), make_run(tmp_path / "b", 66.0, 30.0, robust=12.0)]
    page, text = read(made, tmp_path / "compare.html")
    assert "a finds most (R@1 79.0); b withstands most (robust R@1 12.0)." in text
    assert "From a to b: 12.0 more robust R@1 for 13.0 less R@1" in text
    assert "robustness: robust R@1" in text
    assert [attributes.get("title") for attributes in page.by("th")].count(
        "queries that find their class whatever the attack, %"
    ) == 1
    _, text = read([made[0], make_run(tmp_path / "old", 66.0, 40.0)], tmp_path / "compare.html")
    assert "old withstands most (ERS 40.0)." in text


def test_a_robust_recall_that_is_the_same_for_all_is_said(tmp_path: Path) -> None:
    made = [make_run(tmp_path / "a", 79.0, 6.0, robust=0.0), make_run(tmp_path / "b", 66.0, 30.0, robust=0.0)]
    _, text = read(made, tmp_path / "compare.html")
    assert "b withstands most (ERS 30.0). The worst attack leaves them all the same robust R@1, 0.0" in text


@pytest.mark.parametrize(
    ("told", "words"),
    [
        ({"eps": 4 / 255}, "eps 8/255 (a) and 4/255 (b)"),
        ({"norm": "l2"}, "norm"),
        ({"eps": 1.5, "norm": "l2"}, "eps 8/255 (a) and 1.50 (b); norm linf (a) and l2 (b)"),
    ],
)
def test_robust_recall_is_compared_at_the_same_strength_only(tmp_path: Path, told: dict[str, Any], words: str) -> None:
    made = [make_run(tmp_path / "a", 79.0, 36.0, robust=0.0), make_run(tmp_path / "b", 66.0, 30.0)]
    (made[1] / "audit.json").write_text(json.dumps(with_robust(ers_audit(30.0, {}, []), 12.0, **told)))
    _, text = read(made, tmp_path / "compare.html")
    assert f"Robust R@1: {words}" in text
    assert "withstands most" not in text


def test_the_mode_of_ers_is_no_matter_to_robust_recall(tmp_path: Path) -> None:
    made = [
        make_run(tmp_path / "a", 79.0, 36.0, robust=0.0),
        make_run(tmp_path / "b", 66.0, 30.0, robust=12.0, audit={"mode": "published"}),
    ]
    _, text = read(made, tmp_path / "compare.html")
    assert "ERS: mode fixed (a) and published (b)" in text
    assert "Robust R@1:" not in text
    assert "b withstands most (robust R@1 12.0)." in text


def test_what_cannot_be_trusted_is_struck_through_and_wins_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    flag = {"name": "masked-gradient", "level": "error", "why": "70.0; 0.5 past sin(900 x)", "advice": "remove it"}
    made = [
        make_run(tmp_path / "fake", 79.0, 87.0, robust=70.0, flags=[flag]),
        make_run(tmp_path / "honest", 66.0, 30.0, robust=12.0),
        make_run(tmp_path / "weak", 60.0, 10.0, robust=2.0),
        make_run(tmp_path / "broken", 59.0, 80.0, robust=0.0, flags=[flag]),
    ]
    page, text = read(made, tmp_path / "compare.html")
    assert "honest withstands most (robust R@1 12.0)." in text
    assert "Left out, as its audit says not to trust its figures: fake." in text
    assert "Struck through : the audit says not to trust it." in text
    assert page.by("s")
    files = [str(tmp_path / f"table.{kind}") for kind in ("csv", "md")]
    words = ["--csv", files[0], "--markdown", files[1], "--out", str(tmp_path / "c.html")]
    assert main(["compare", *map(str, made), *words]) == 0
    printed = capsys.readouterr().out
    assert re.search(r"fake .*\(!\) 70\.0 .*\(!\) 87\.0", printed)
    assert re.search(r"honest .*12\.0 \(10\.0–14\.0\)\*", printed)
    assert "fake: ERROR masked-gradient: 70.0; 0.5 past sin(900 x)." in printed
    rows = list(csv.DictReader(io.StringIO(Path(files[0]).read_text("utf-8"))))
    assert [row["robust R@1 doubted"] for row in rows] == ["yes", "", "", ""]  # nothing is below zero
    assert [row["ERS doubted"] for row in rows] == ["yes", "", "", "yes"]
    assert "(!) 70.0" in Path(files[1]).read_text("utf-8")


def test_everyday_damage_is_compared(tmp_path: Path) -> None:
    made = [make_run(tmp_path / "a", 79.0, 36.0), make_run(tmp_path / "b", 66.0, 30.0)]
    described = {"natural R@1": {"meaning": "mean", "digits": 1}, "R@1": {"shown": "page"}}
    for folder, mean in zip(made, (50.0, 61.2), strict=True):
        document = {**ers_audit(0.0, {"protocol": "natural"}, []), "metrics": {"R@1": 78.0, "natural R@1": mean}}
        (folder / "audit-natural-fixed.json").write_text(json.dumps({**document, "described": described}))
    _, text = read(made, tmp_path / "compare.html")
    assert "Everyday damage 61.2" in text
    assert "Everyday damage" in text.partition("Every figure of every run")[2]


def test_a_line_of_one_run_among_several_says_whose_it_is(folders: list[Path], tmp_path: Path) -> None:
    (folders[0] / "artifacts" / "exhibits.json").unlink()
    text = compare(folders, tmp_path / "compare.html").read_text("utf-8")
    strength = text[text.index('<section id="eps"') :]
    assert "<span>hm</span>" in strength[: strength.index("</section>")]


def test_sizes_of_discs_are_explained_where_they_differ(folders: list[Path], tmp_path: Path) -> None:
    assert "The larger a disc" in read(folders, tmp_path / "compare.html")[1]
    (folders[0] / "metrics.jsonl").unlink()  # so the time of one is not known
    assert "The larger a disc" not in read(folders, tmp_path / "compare.html")[1]


def test_headings_are_in_order(folders: list[Path], tmp_path: Path) -> None:
    page, _ = read(folders, tmp_path / "compare.html")
    levels = [int(tag[1]) for tag, _ in page.seen if re.fullmatch(r"h[1-6]", tag)]
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(below - above <= 1 for above, below in itertools.pairwise(levels))


def test_page_fetches_nothing(folders: list[Path], tmp_path: Path) -> None:
    page, _ = read(folders, tmp_path / "compare.html")
    assert page.by("img")
    assert all((image["src"] or "").startswith("data:image/") for image in page.by("img"))
    assert not page.by("link")
    assert not re.search(r"https?://", (tmp_path / "compare.html").read_text("utf-8"))


def test_without_images_there_is_no_picture(folders: list[Path], tmp_path: Path) -> None:
    page, text = read(folders, tmp_path / "compare.html", images=False)
    assert not page.by("img")
    assert "data:image" not in (tmp_path / "compare.html").read_text("utf-8")
    assert "79.0" in text


def test_own_reports_are_linked_from_where_the_page_lies(folders: list[Path], tmp_path: Path) -> None:
    (folders[1] / "report.html").write_text("x")
    page, _ = read(folders, tmp_path / "pages" / "compare.html")
    links = [link["href"] for link in page.by("a") if not (link["href"] or "").startswith("#")]
    assert links == ["../runs/hm/report.html"]


def test_marks_are_explained_where_there_are_any(folders: list[Path], tmp_path: Path) -> None:
    assert "is marked ▸" in read(folders, tmp_path / "compare.html")[1]
    alike = [make_run(tmp_path / name) for name in "ab"]
    assert "is marked ▸" not in read(alike, tmp_path / "alike.html")[1]


def test_unlike_measurements_are_said_and_nobody_wins(tmp_path: Path) -> None:
    folders = [make_run(tmp_path / "a"), make_run(tmp_path / "b", 66.0, 30.0, audit={"mode": "published"})]
    page, text = read(folders, tmp_path / "compare.html")
    assert "Not measured alike, so no best is marked there." in text
    assert "ERS: mode fixed (a) and published (b)" in text
    assert "withstands most" not in text
    assert "dashed line" not in text
    assert not any("front" in (path.get("class") or "") for path in page.by("path"))
    cells = [attributes.get("class") or "" for attributes in page.by("td")]
    assert sum("best" in kind.split() for kind in cells) == 4  # the four clean metrics


def test_hostile_names_are_shown_and_do_nothing(tmp_path: Path) -> None:
    name = HOSTILE.replace("/", "")
    flag = {"name": HOSTILE, "level": HOSTILE, "why": HOSTILE, "advice": HOSTILE}
    folders = [make_run(tmp_path / name, flags=[flag], regime=HOSTILE), make_run(tmp_path / ("long" * 40))]
    add_exhibits(folders[0], 5, 0, [1, 2, 3, 4, 5, 6])
    add_exhibits(folders[1], 5, 0, [1, 2, 3, 4, 5, 6])
    for folder in folders:
        file = folder / "artifacts" / "exhibits.json"
        document = json.loads(file.read_text())
        document["strips"][0]["label"] = HOSTILE
        document["strips"][0]["matches"][0]["label"] = HOSTILE
        document["strips"][0]["matches"][0]["picture"]["file"] = "../../../etc/passwd"
        document["radius"]["goal"] = HOSTILE
        file.write_text(json.dumps(document))
    page, text = read(folders, tmp_path / "compare.html")
    assert len(page.by("script")) == len(SCRIPTS) + 2  # that of comparisons, and the table as a file
    assert all(not any(key.startswith("on") for key in attributes) for _, attributes in page.seen)
    assert name in "".join(page.text)
    assert "49" not in text


@pytest.mark.parametrize("damage", [{}, {"strips": 3, "radius": 4}, {"strips": [None, {"query": 1}], "radius": {}}])
def test_strange_exhibits_leave_a_page(folders: list[Path], tmp_path: Path, damage: dict[str, Any]) -> None:
    for folder in folders:
        (folder / "artifacts" / "exhibits.json").write_text(json.dumps({"schema": 1, **damage}))
    page, _ = read(folders, tmp_path / "compare.html")
    assert not page.by("img")


def test_one_run_and_thirty_runs(tmp_path: Path) -> None:
    folders = [make_run(tmp_path / f"run{i}", 50.0 + i, 2.0 + i, seed=i) for i in range(30)]
    _, alone = read(folders[:1], tmp_path / "one.html")
    assert "compared" not in alone
    _, text = read(folders, tmp_path / "many.html")
    assert "30 runs compared" in text
    assert "run (30 seeds)" in text


def test_the_page_carries_its_tables(folders: list[Path], tmp_path: Path) -> None:
    text = compare(folders, tmp_path / "compare.html").read_text("utf-8")
    found = re.search(r'<pre id="export-csv"[^>]*>(.*?)</pre>', text, re.DOTALL)
    assert found
    rows = list(csv.DictReader(io.StringIO(found[1])))
    assert [(row["run"], float(row["ERS"])) for row in rows] == [("standard", 4.0), ("hm", 24.0)]


def test_command_prints_and_writes(folders: list[Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    files = {kind: tmp_path / "new" / f"table.{kind}" for kind in ("csv", "markdown", "latex")}
    options = [word for kind, file in files.items() for word in (f"--{kind}", str(file))]
    runs = [str(folder) for folder in folders]
    assert main(["compare", *runs, "--out", str(tmp_path / "c.html"), *options]) == 0
    printed = capsys.readouterr().out
    assert re.search(r"standard +79\.0\*", printed)
    assert "24.0 (22.5–25.5)*" in printed
    assert "hm: WARNING gradient-masking: search beats gradients." in printed
    assert all(file.is_file() for file in files.values())
    assert "\\toprule" in files["latex"].read_text()
    assert main(["compare", *runs, "--out", str(tmp_path / "c.html"), "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["table"]["rows"][1]["values"]["ERS"]["best"] is True
    assert document["written"] == [str(tmp_path / "c.html")]


def test_command_refuses_in_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["compare", str(tmp_path)]) == 2
    assert capsys.readouterr().err.count("\n") == 1
