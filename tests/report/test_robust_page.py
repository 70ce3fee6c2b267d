"""Robust R@1 on the page of a run: where it stands, what it is made of, and what is said when it cannot be trusted."""

from __future__ import annotations

import html
import re
from pathlib import Path
from typing import Any

import pytest
from reported_runs import audit, change, natural_audit, robust_audit, run_folder, write

from holdfast.report.page import make

MASKED = {
    "name": "masked-gradient",
    "level": "error",
    "why": "R@1 under the reported attacks 70.0; 0.5 when gradients pass /home/alice/deep/net by (BPDA)",
    "advice": "audit the model without it",
}


@pytest.fixture
def run(tmp_path: Path) -> Path:
    run = run_folder(tmp_path)
    write(run / "audit.json", robust_audit())
    return run


def text_of(page: str) -> str:
    page = re.sub(r"<(style|script).*?</\1>", " ", page.replace("<wbr>", ""), flags=re.S)
    return " ".join(html.unescape(re.sub(r"<[^>]+>", " ", page)).split()).replace("\u202f", " ")


def section(page: str, key: str) -> str:
    found = re.search(rf'<section id="{key}".*?</section>', page, re.S)
    return text_of(found[0]) if found else ""


def tiles(page: str) -> dict[str, str]:
    found = re.findall(r'<li class="tile"><span class="name">(.*?)</span><span class="value">(.*?)</span>', page, re.S)
    return {name: value.replace("\u202f", " ") for name, value in found}


def test_the_headline_is_the_fall_from_clean_to_worst(run: Path) -> None:
    page = make(run).html
    text = text_of(page)
    told = "find their class; 3.5 (1.5–6.5) still do when every pixel may change by up to 8/255, whatever the attack"
    assert f"Of 100 searches, 77.0 {told} (200 queries attacked)." in text
    assert "attacked queries, 77.0 % are right as they are" not in text  # one attack says less
    assert list(tiles(page)) == ["R@1, clean images", "Robust R@1", "ERS, robustness", "Time", "Flags"]
    assert tiles(page)["Robust R@1"].startswith("3.5 %")
    assert "<s>" not in page


def test_it_says_which_attack_broke_how_many_and_what_the_gallery_loses(run: Path) -> None:
    shown = section(make(run).html, "robust")
    assert "3.5 % of the searches hold whatever the attack" in shown
    order = ["Unchanged R@1", "77.0 %", "es", "17.0 %", "first to break 120", "apgd-misrank", "7.0 %", "Random search"]
    assert re.search(".*".join(map(re.escape, [*order, "3.5 %", "Whatever the attack"])), shown)
    assert "one changed image of the gallery enters the first 10 of a search in 61.5 %" in shown
    assert "leaves the first 10 of a search in 84.0 (79.0–89.0) % of the pairs tried" in shown
    assert "Found nothing left to break: ltm, apgd-soft-misrank. The ensemble took 123,456 passes, 3 min" in shown


def test_none_that_holds_is_said_in_words(run: Path) -> None:
    write(run / "audit.json", robust_audit(0.0))
    assert "Every search can be broken" in section(make(run).html, "robust")


def test_ers_gives_no_verdict_that_robust_recall_contradicts(run: Path) -> None:
    shown = section(make(run).html, "attacks")
    assert "Ten attacks leave 38.0 of 100 standing on average, the worst 3.5 % of the searches" in shown
    assert "resists" not in shown
    assert "an attacker chooses one" in shown


def test_an_error_strikes_the_figures_through_where_they_stand(run: Path) -> None:
    write(run / "audit.json", robust_audit(70.0, [MASKED]))
    page = make(run).html
    assert tiles(page)["Robust R@1"].startswith("<s>70.0 %</s>")
    assert tiles(page)["ERS, robustness"].startswith("<s>38.0</s>")
    head = text_of(page.partition("<main")[0])
    assert "Do not trust what is struck through. masked-gradient: R@1 under the reported attacks 70.0; 0.5 when" in head
    assert "alice" not in page
    shown = section(page, "robust")
    assert "Robust R@1 is not to be trusted here" in shown
    assert "hold whatever the attack" not in shown
    write(run / "audit.json", robust_audit(70.0, [{**MASKED, "level": "warning"}]))
    assert "<s>" not in make(run).html


def test_a_zero_can_be_trusted_whatever_masks_the_gradient(run: Path) -> None:
    write(run / "audit.json", robust_audit(0.0, [MASKED]))
    page = make(run).html
    assert tiles(page)["Robust R@1"].startswith("0.0 %")
    assert tiles(page)["ERS, robustness"].startswith("<s>38.0</s>")
    assert "Do not trust what is struck through" in text_of(page.partition("<main")[0])
    assert "Every search can be broken" in section(page, "robust")


def test_everyday_damage_has_a_tile(run: Path) -> None:
    write(run / "audit-natural-fixed.json", natural_audit())
    page = make(run).html
    assert tiles(page)["Everyday damage"].startswith("61.2 %")
    assert "77.0 % without damage" in text_of(page)


def test_an_audit_of_before_shows_as_before(run: Path) -> None:
    write(run / "audit.json", audit())
    page = make(run).html
    assert list(tiles(page)) == ["R@1, clean images", "ERS, robustness", "Time", "Flags"]
    assert "Robust R@1" not in text_of(page).replace("robust R@1 counts those", "")
    assert "Ten attacks leave 38.0 of 100 standing: it resists in part" in text_of(page)


def test_attack_figures_are_no_clean_ones(run: Path) -> None:
    (run / "evaluation.json").unlink()
    described = {
        "R@1": {"meaning": "clean", "digits": 1, "shown": "page", "percent": True},
        "robust R@1": {"meaning": "whatever the attack", "digits": 1, "shown": "headline", "percent": True},
        "ERS": {"meaning": "mean of the ten", "digits": 1, "shown": "headline"},
        "collapsed": {"meaning": "whether all is one point", "shown": "page"},
    }
    change(run / "audit.json", described=described)
    shown = section(make(run).html, "clean")
    assert "whether all is one point" in shown
    assert "whatever the attack" not in shown
    assert "mean of the ten" not in shown


@pytest.mark.parametrize(
    "damage",
    [
        {"robust": 3},
        {"robust": {}},
        {"robust": {"eps": 0.03, "norm": ["linf"], "queries": 200}},
        {"robust": {"eps": 0.03, "norm": "linf", "queries": 0, "broken_by": {"<u>": "many", "x": 1}}},
        {"robust": {"eps": 0.03, "norm": "linf", "queries": 200, "broken_by": {"<u>": 3}, "passes": "x"}},
        {"intervals": {"robust R@1": [1, 2, 3]}},
        {"intervals": {"robust R@1": "abc"}},
        {"flags": [{"level": "error"}, 3]},
    ],
)
def test_damaged_audits_leave_a_page(run: Path, damage: dict[str, Any]) -> None:
    change(run / "audit.json", **damage)
    page = make(run)
    assert "<u>" not in page.html
    assert "robust" not in {name.lower() for name in page.missing}
    assert "78.8" in page.html
