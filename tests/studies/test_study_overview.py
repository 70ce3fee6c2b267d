"""The page of tables that papers are cited for."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

import pytest
from figures_of import figures_of, made_up

from holdfast_studies import base
from holdfast_studies.cited import CitedColumn, CitedTable, cited, draw
from holdfast_studies.document import document, write
from holdfast_studies.overview import write_overview
from holdfast_studies.page import PAPERS, load
from holdfast_studies.results import Results


def measured(own: CitedTable) -> list[CitedColumn]:
    return [column for column in own.columns.values() if not column.printed]


@pytest.mark.parametrize("letter", PAPERS)
def test_every_row_has_arms_with_the_figures_of_its_columns(letter: str) -> None:
    own = cited()[letter]
    for row in own.rows:
        arms = [(column, arm) for column in measured(own) if (arm := column.measured(row)) is not None]
        assert arms, row
        for column, arm in arms:
            assert column.figure in figures_of(arm, {"retrieval": {"R@1"}, "plane": {"points"}}), (row, column.figure)
    for column in measured(own):
        assert any(column.measured(row) is not None for row in own.rows), column
    assert not own.drawn or base.get(own.drawn).figures("paper")


@pytest.mark.parametrize("letter", PAPERS)
def test_what_is_printed_is_what_the_study_quotes(letter: str) -> None:
    own = cited()[letter]
    quoted = {column.printed: base.get(column.study).published for column in own.columns.values() if column.printed}
    for row, printed in own.rows.items():
        for key, value in printed.items():
            assert f"{value:.1f}" in re.findall(r"\d+\.\d", quoted[key]), (row, key)


def results_of(values: Mapping[str, float]) -> Results:
    return made_up({arm: {"R@1": value} for arm, value in values.items()}, seeds=2)


def test_printed_and_measured_stand_side_by_side_with_their_settings() -> None:
    headings, rows = cited()["A"].table({"A2": results_of({"standard": 60.0, "CARS standard": 70.0})})
    table = {row[0]: dict(zip(headings[1:], row[1:], strict=True)) for row in rows}
    assert table["standard"] == {
        "CUB, printed": "62.7",
        "CUB": "60.0 ± 0.0",
        "CUB, tuned": "-",
        "CARS, printed": "79.9",
        "CARS": "70.0 ± 0.0",
        "CARS, tuned": "-",
    }
    assert table["+A"]["CUB"] == "-"
    assert table["setting"]["CUB"] == table["setting"]["CARS"] == "the paper's"
    assert table["setting"]["CUB, tuned"] == "", "of what was not run nothing is said"


def test_a_shortened_setting_says_by_how_much() -> None:
    headings, rows = cited()["E"].table({"E3": results_of({"Omniglot triplet": 70.0})})
    (setting,) = (dict(zip(headings, row, strict=True)) for row in rows if row[0] == "setting")
    assert setting["letters"] == "shortened: 100 of 150 epochs"


def test_a_rate_is_no_part_of_an_arms_name() -> None:
    column = cited()["G"].columns["directions"]
    arm = column.measured("cos")
    assert arm is not None
    assert arm.name.startswith("CARS cos @ ")
    assert column.measured("DR-MS") is None, "a rule of another study"


def test_a_column_is_drawn_beside_what_is_printed_once_two_rows_can_be_compared() -> None:
    own = cited()["A"]
    assert own.panels({"A2": results_of({"standard": 60.0, "CARS standard": 70.0})}) == []
    assert draw([]) is None
    values = {"standard": 60.0, "+A": 61.0, "tuned +U": 64.0, "tuned +T": 65.0, "CARS standard": 70.0}
    (panel,) = own.panels({"A2": results_of(values)})
    assert (panel.title, panel.printed["+A"]) == ("CUB", 66.0)
    assert panel.measured == {
        "measured": {"standard": [60.0, 60.0], "+A": [61.0, 61.0]},
        "tuned": {"+T": [65.0, 65.0], "+U": [64.0, 64.0]},
    }
    figure = draw([panel])
    assert figure is not None
    (axes,) = figure.axes
    assert [text.get_text() for text in axes.get_yticklabels()] == list(own.rows)
    drawn = {str(line.get_label()): line for line in axes.lines}
    assert list(drawn["printed"].get_xdata()) == [62.7, 64.4, 66.0, 65.5, 64.2]
    (legend,) = figure.legends
    assert [text.get_text() for text in legend.get_texts()] == ["printed", "measured", "tuned"]


def test_figures_that_count_no_more_go(tmp_path: Path) -> None:
    raw, drawn = tmp_path / "raw" / "paper" / "A2.json", tmp_path / "figures" / "paper" / "overview-A.png"
    raw.parent.mkdir(parents=True)
    for values in ({"standard": 60.0, "+A": 61.0}, {"standard": 60.0}):
        write(raw, document(base.get("A2"), "paper", results_of(values), {arm: [0, 1] for arm in values}))
        write_overview(tmp_path, [load(raw)])
        shown = "(figures/paper/overview-A.png)" in (tmp_path / "README.md").read_text("utf-8")
        assert shown == drawn.is_file() == (len(values) > 1)


def test_the_page_has_a_part_for_each_paper_and_says_what_waits(tmp_path: Path) -> None:
    study = base.get("A2")
    raw = tmp_path / "raw" / "paper" / "A2.json"
    raw.parent.mkdir(parents=True)
    write(
        raw,
        document(study, "paper", results_of({"standard": 60.0, "tuned +A": 61.0}), {"standard": [0], "tuned +A": [0]}),
    )
    (tmp_path / "reading").mkdir()
    (tmp_path / "reading" / "overview-A.md").write_text("A person's sentence.\n")
    write_overview(tmp_path, [load(raw)])
    text = (tmp_path / "README.md").read_text("utf-8")
    parts = re.split(r"^## ", text, flags=re.MULTILINE)[1:]
    assert [part.splitlines()[0] for part in parts] == [PAPERS[letter] for letter in cited()]
    assert "A person's sentence." in parts[0]
    assert "| +A | 66.0 | - | 61.0 ± 0.0 | 82.0 | - | - |" in parts[0]
    assert "[A2](paper.md#a2)" in parts[0]
    assert "![" not in text, "no two rows of a column"
    for part in parts[1:]:
        assert "not run yet at paper scale" in part
        assert "|" not in part
