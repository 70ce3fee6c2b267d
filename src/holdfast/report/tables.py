"""Tables of figures: rows of runs, columns that know which direction is better, best values marked."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Sequence
from typing import Any, Literal

from holdfast.console import table
from holdfast.report.figures import number, with_interval

MARK = "*"
"""Follows the best value of a column where there is no bold type."""


@dataclasses.dataclass(frozen=True)
class Column:
    """One figure.

    Args:
        key: unique and stable, the head of a CSV column.
        title: as short as readers know it.
        group: what the figure belongs to; neighbours of one group share a head.
        source: the measurement it comes from; runs measured differently are not ranked against each other.
        meaning: one line for people who do not know it.
        better: which direction is good.
        digits: after the point.
        headline: whether the short table of the terminal has it.
    """

    key: str
    title: str
    group: str
    source: str
    meaning: str
    better: Literal["higher", "lower"] = "higher"
    digits: int = 1
    headline: bool = False


@dataclasses.dataclass(frozen=True)
class Cell:
    """One value.

    Args:
        value: None where it was not measured.
        interval: its 95 % confidence interval, where there is one.
        spread: standard deviation over seeds, in a row that stands for several runs.
        best: whether nothing in its column is better.
    """

    value: float | None = None
    interval: tuple[float, float] | None = None
    spread: float | None = None
    best: bool = False


@dataclasses.dataclass(frozen=True)
class Row:
    """A run, or several seeds of one, with a cell per column."""

    name: str
    cells: tuple[Cell, ...]


@dataclasses.dataclass(frozen=True)
class Table:
    """Rows of the same columns."""

    columns: tuple[Column, ...]
    rows: tuple[Row, ...]

    def without_empty(self) -> Table:
        """Only the columns in which some row has a value."""
        kept = [i for i in range(len(self.columns)) if any(row.cells[i].value is not None for row in self.rows)]
        return self._picked(kept)

    def headlines(self) -> Table:
        """Only the columns of the short table."""
        return self._picked([i for i, column in enumerate(self.columns) if column.headline])

    def marked(self, refused: Collection[str] = ()) -> Table:
        """The same with the best of every column marked, ties too.

        A value ties with another that is written the same. Nothing is marked where all are the same, where fewer than
        two rows have a value, or in columns of a refused source.

        Args:
            refused: sources whose rows were measured under different conditions.
        """
        best = [None if c.source in refused else _best_text(c, self._values(i)) for i, c in enumerate(self.columns)]
        rows = [
            Row(
                row.name,
                tuple(
                    dataclasses.replace(cell, best=text is not None and written(column, cell.value) == text)
                    for column, cell, text in zip(self.columns, row.cells, best, strict=True)
                ),
            )
            for row in self.rows
        ]
        return Table(self.columns, tuple(rows))

    def text(self) -> str:
        """For the terminal; the best values end in a star."""
        heads = ["run", *[column.title for column in self.columns]]
        marked = [any(row.cells[i].best for row in self.rows) for i in range(len(self.columns))]
        lines = [
            [
                row.name,
                *[
                    shown(column, cell) + (MARK if cell.best else " " if padded else "")
                    for column, cell, padded in zip(self.columns, row.cells, marked, strict=True)
                ],
            ]
            for row in self.rows
        ]
        return table(heads, lines)

    def plain(self) -> dict[str, Any]:
        """As JSON has it: per row the value, interval, spread and mark of every column."""
        return {
            "columns": [dataclasses.asdict(column) for column in self.columns],
            "rows": [
                {
                    "name": row.name,
                    "values": {c.key: dataclasses.asdict(v) for c, v in zip(self.columns, row.cells, strict=True)},
                }
                for row in self.rows
            ],
        }

    def _picked(self, indices: Sequence[int]) -> Table:
        rows = [Row(row.name, tuple(row.cells[i] for i in indices)) for row in self.rows]
        return Table(tuple(self.columns[i] for i in indices), tuple(rows))

    def _values(self, index: int) -> list[float]:
        return [value for row in self.rows if (value := row.cells[index].value) is not None]


def written(column: Column, value: float | None) -> str:
    """A value as every table writes it; large ones with thousands set apart."""
    return number(value, column.digits)


def shown(column: Column, cell: Cell) -> str:
    """The value with its interval, or its spread over seeds."""
    if cell.spread is not None:
        return f"{written(column, cell.value)} ± {number(cell.spread, column.digits)}"
    return with_interval(cell.value, cell.interval, column.digits)


def _best_text(column: Column, values: Sequence[float]) -> str | None:
    """How the best of a column is written, if that sets any row apart."""
    if len({written(column, value) for value in values}) < 2:
        return None
    return written(column, max(values) if column.better == "higher" else min(values))
