"""Everyday damage on the page of a run."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from collected_runs import picture, read, row_of, split_images, table_vectors, vectors_of
from reported_runs import DAMAGES, change, natural_audit, run_folder, write

from holdfast.report.page import make

NATURAL = "audit-natural-fixed.json"
EXHIBITS = "artifacts/exhibits.json"


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    run = run_folder(tmp_path)
    write(run / NATURAL, natural_audit())
    return run


def section(run: Path) -> str:
    html = make(run).html
    return html[html.index('<section id="natural"') :].partition("</section>")[0]


def test_every_cell_is_a_number_and_a_colour(run: Path) -> None:
    shown = section(run)
    cells = json.loads((run / NATURAL).read_text())["natural"]
    for row in cells.values():
        for value in row:
            assert f'style="--left:{100 * value / 77:.1f}" data-value="{value}">{value:.1f}<' in shown
    assert "15.8 points of R@1" in shown
    assert "most by overlay, 30.0" in shown
    assert "6.5 (3.0–10.0)" in shown
    assert r"overlay,5,39.0,34.0,44.0\n" in shown  # the file, with intervals
    assert shown.count("<img") == 2 * (len(DAMAGES) + 2)
    assert "natural" not in make(run).html.partition('<section id="others"')[2].partition("</section>")[0]


def test_without_an_audit_or_images(run: Path) -> None:
    change(run / EXHIBITS, damage=None, missing={"damage": "all images are of one class"})
    assert "One query" not in section(run)
    assert "77.0" in section(run)
    (run / NATURAL).unlink()
    assert '<section id="natural"' not in make(run).html


@pytest.mark.parametrize(
    "damage",
    [{"natural": {"<u>jpeg": "x"}}, {"natural": {"<u>jpeg": [None, "x", 1e999]}}, {"natural": []}, {"metrics": 3}],
)
def test_damaged_figures_do_no_harm(run: Path, damage: dict[str, Any]) -> None:
    change(run / NATURAL, **damage)
    page = make(run)
    assert "<u>" not in page.html
    assert "Ten attacks" not in page.missing


def test_what_was_collected_is_what_the_model_finds(shown: Path) -> None:
    stored = read(shown / EXHIBITS)["damage"]
    assert [entry["kind"] for entry in stored["kinds"]] == [*DAMAGES, "patch"]
    table = split_images(shown)
    vectors, names = table_vectors(shown, table), [table.class_names[i] for i in table.labels]
    query = row_of(table, picture(shown, stored["query"]))
    assert names[query] == stored["label"]
    assert stored["matches"][0]["right"]
    seen = vectors_of(shown, [picture(shown, entry["picture"]) for entry in stored["kinds"]])
    for vector, entry in zip(seen, stored["kinds"], strict=True):
        away = np.sqrt(((vectors - vector) ** 2).sum(-1))
        away[query] = np.inf
        (match,) = entry["matches"]
        assert away.min() == pytest.approx(match["distance"], abs=0.05)  # the file is rounded to 8 bits
        assert match["right"] == (match["label"] == stored["label"])
