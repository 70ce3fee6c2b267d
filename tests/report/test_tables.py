"""Tables: marks, text, CSV, Markdown, LaTeX."""

from __future__ import annotations

import csv
import dataclasses
import io
import re
from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.report.tables import Column, Table, TableCell, to_csv, to_latex, to_markdown

RECALL = Column("R@1", "R@1", "Clean", "clean", "found first, %")
MOVED = Column("ES:D", "ES:D", "Attacked", "ers", "how far", "lower", 3)
NAMES = st.text(st.characters(exclude_categories=("Cs", "Cc")), min_size=1, max_size=30)
VALUES = st.floats(-1e6, 1e6)


def made(*rows: tuple[str, float | None, float | None]) -> Table:
    names, recalls, moved = zip(*rows, strict=True)
    return table_of(names, (RECALL, map(TableCell, recalls)), (MOVED, map(TableCell, moved)))


def table_of(names: Iterable[str], *columns: tuple[Column, Iterable[TableCell]]) -> Table:
    return Table(tuple(names), tuple(dataclasses.replace(column, cells=tuple(cells)) for column, cells in columns))


def marks(table: Table) -> list[list[bool]]:
    return [[column.cells[row].best for column in table.columns] for row in range(len(table.names))]


def test_best_is_marked_in_the_right_direction_and_flips() -> None:
    assert marks(made(("a", 80.0, 0.5), ("b", 70.0, 0.2)).marked()) == [[True, False], [False, True]]
    assert marks(made(("a", 60.0, 0.1), ("b", 70.0, 0.2)).marked()) == [[False, True], [True, False]]


def test_ties_are_marked_as_they_are_written() -> None:
    table = made(("a", 80.01, None), ("b", 79.99, 1.0), ("c", 70.0, 2.0)).marked()
    assert marks(table) == [[True, False], [True, True], [False, False]]


def test_nothing_is_marked_where_nothing_is_better() -> None:
    assert not any(map(any, marks(made(("a", 80.0, None), ("b", 80.0, 0.3)).marked())))
    assert not any(map(any, marks(made(("a", 80.0, 0.3)).marked())))


def test_a_refused_source_has_no_marks() -> None:
    assert marks(made(("a", 80.0, 0.5), ("b", 70.0, 0.2)).marked(["ers"])) == [[True, False], [False, False]]


@pytest.mark.parametrize(
    ("intervals", "marked", "rivals"),
    [
        ([(78.0, 82.0), (68.0, 72.0), (58.0, 62.0)], [0], []),
        ([(70.0, 90.0), (65.0, 75.0), (58.0, 62.0)], [], [1]),
        ([(72.0, 82.0), (68.0, 72.0), (58.0, 62.0)], [], [1]),  # ends that touch
        ([(78.0, 82.0), (68.0, 72.0), (30.0, 79.0)], [], [2]),  # a wide third
        ([(70.0, 90.0), None, (58.0, 62.0)], [0], []),
        ([None, (68.0, 82.0), (58.0, 62.0)], [0], []),
    ],
)
def test_an_order_that_may_be_chance_is_not_marked(
    intervals: list[tuple[float, float] | None], marked: list[int], rivals: list[int]
) -> None:
    cells = [TableCell(value, interval) for value, interval in zip((80.0, 70.0, 60.0), intervals, strict=True)]
    table = table_of("abc", (RECALL, cells))
    assert [i for i, (best,) in enumerate(marks(table.marked())) if best] == marked
    assert table.column("R@1").rivals() == rivals
    assert table.column("R@1").leaders() == [0]
    assert table.column("nothing").leaders() == table.column("nothing").rivals() == []


def test_less_is_better_and_intervals_overlap_downwards_too() -> None:
    cells = [TableCell(0.1, (0.05, 0.3)), TableCell(0.4, (0.2, 0.6)), TableCell(0.9, (0.8, 1.0))]
    column = table_of("abc", (MOVED, cells)).column("ES:D")
    assert (column.leaders(), column.rivals()) == ([0], [1])


@given(st.lists(VALUES, min_size=2, max_size=6))
def test_marked_values_are_the_extreme_ones(values: list[float]) -> None:
    table = made(*[(str(i), v, v) for i, v in enumerate(values)]).marked()
    for index, extreme in ((0, max(values)), (1, min(values))):
        digits = table.columns[index].digits
        best = [cell.value for cell in table.columns[index].cells if cell.best]
        assert all(round(v or 0.0, digits) == pytest.approx(round(extreme, digits), abs=1e-9) for v in best)
        assert best or len({f"{abs(v) if round(v, digits) == 0 else v:.{digits}f}" for v in values}) == 1


def test_empty_columns_are_left_out() -> None:
    assert made(("a", 80.0, None), ("b", None, None)).without_empty().columns == (
        dataclasses.replace(RECALL, cells=(TableCell(80.0), TableCell())),
    )


def test_terminal_table_marks_with_a_star_and_writes_a_dash() -> None:
    lines = made(("a", 80.0, None), ("b", 70.0, 0.25)).marked().text().splitlines()
    assert "80.0*" in lines[2]
    assert "–" in lines[2]
    assert "0.250" in lines[3]
    assert "*" not in lines[3]


@given(st.lists(st.tuples(NAMES, st.none() | VALUES, st.none() | VALUES), min_size=1, max_size=5))
def test_csv_reads_back(rows: list[tuple[str, float | None, float | None]]) -> None:
    read = list(csv.reader(io.StringIO(to_csv(made(*rows)))))
    assert read[0] == ["run", "R@1", "ES:D"]
    for line, (name, *values) in zip(read[1:], rows, strict=True):
        assert line[0].removeprefix("'") == name.removeprefix("'")
        assert not line[0].startswith(("=", "+", "-", "@"))
        assert [float(field) if field else None for field in line[1:]] == values


def test_csv_has_intervals_and_spreads_in_columns_of_their_own() -> None:
    cells = (TableCell(46.0, interval=(44.1, 47.9)), TableCell(0.5, spread=0.1))
    read = list(csv.DictReader(io.StringIO(to_csv(table_of("a", (RECALL, cells[:1]), (MOVED, cells[1:]))))))
    assert read == [
        {"run": "a", "R@1": "46.0", "R@1 low": "44.1", "R@1 high": "47.9", "ES:D": "0.5", "ES:D std": "0.1"}
    ]


@given(NAMES)
def test_markdown_reads_back(name: str) -> None:
    lines = to_markdown(made((name, 80.0, None), ("other", 70.0, 0.5)).marked()).splitlines()
    assert len(lines) == 4
    cells = [re.split(r"(?<!\\)\|", line.replace("\\\\", "\0"))[1:-1] for line in lines]
    assert {len(line) for line in cells} == {3}
    assert re.sub(r"\\(.)", r"\1", cells[2][0]).replace("\0", "\\").strip() == " ".join(name.split())
    assert cells[2][1].strip() == "**80.0**"
    assert cells[3][1].strip() == "70.0"


@given(NAMES)
def test_latex_has_no_live_sign_from_a_name(name: str) -> None:
    text = to_latex(made((name, 80.0, None), ("other", 70.0, 0.5)).marked())
    line = text.splitlines()[5]
    assert line.endswith(r" & \textbf{80.0} & -- \\")
    escaped = line.removesuffix(r" & \textbf{80.0} & -- \\")
    bare = re.sub(r"\\text[a-z]+\{\}|\\[{}$&%#_]|\$\\pm\$", "", escaped)
    assert not re.search(r"[\\{}$&%#_~^<>|\"]", bare)


def test_latex_writes_intervals_and_spreads() -> None:
    cells = (TableCell(46.0, interval=(44.1, 47.9)), TableCell(0.5, spread=0.1))
    line = to_latex(table_of(["50%_a"], (RECALL, cells[:1]), (MOVED, cells[1:]))).splitlines()[5]
    assert line == r"50\%\_a & 46.0 (44.1--47.9) & 0.500 $\pm$ 0.100 \\"
