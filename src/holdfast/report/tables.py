"""Tables of figures: rows of runs, columns that know which direction is better, best values marked; also as files."""

from __future__ import annotations

import csv
import dataclasses
import io
import re
from collections.abc import Collection, Sequence
from typing import Any, Literal

from holdfast.console import table
from holdfast.report.formatting import NONE, number, with_interval

MARK = "*"
"""Follows the best value of a column where there is no bold type."""
FORMULA = ("=", "+", "-", "@", "\t", "\r")
"""A spreadsheet would compute text that starts with one of these."""
MARKDOWN_SIGNS = re.compile(r"([\\`*_{}\[\]<>|#~$&])")
LATEX_SIGNS = {
    "\\": r"\textbackslash{}",
    "{": r"\{",
    "}": r"\}",
    "$": r"\$",
    "&": r"\&",
    "%": r"\%",
    "#": r"\#",
    "_": r"\_",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    '"': r"\textquotedbl{}",
    "±": r"$\pm$",
    NONE: "--",
}


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
        ranked: whether runs can be ranked by it at all.
    """

    key: str
    title: str
    group: str
    source: str
    meaning: str
    better: Literal["higher", "lower"] = "higher"
    digits: int = 1
    headline: bool = False
    ranked: bool = True


@dataclasses.dataclass(frozen=True)
class TableCell:
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
    cells: tuple[TableCell, ...]


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
        two rows have a value, where the interval of the best overlaps that of another, or in columns that are not
        ranked or of a refused source.

        Args:
            refused: sources whose rows were measured under different conditions.
        """
        best = [
            [] if not column.ranked or column.source in refused or self.rivals(column.key) else self.leaders(column.key)
            for column in self.columns
        ]
        rows = [
            Row(
                row.name,
                tuple(dataclasses.replace(c, best=i in ahead) for c, ahead in zip(row.cells, best, strict=True)),
            )
            for i, row in enumerate(self.rows)
        ]
        return Table(self.columns, tuple(rows))

    def leaders(self, key: str) -> list[int]:
        """Rows with the best value of a column, as it is written; none where that sets no row apart."""
        index = self._index(key)
        if index is None:
            return []
        column = self.columns[index]
        values = {i: value for i, row in enumerate(self.rows) if (value := row.cells[index].value) is not None}
        texts = {i: written(column, value) for i, value in values.items()}
        if len(set(texts.values())) < 2:
            return []
        best = (max if column.better == "higher" else min)(values, key=values.__getitem__)
        return [i for i, text in texts.items() if text == texts[best]]

    def rivals(self, key: str) -> list[int]:
        """Rows behind the leaders of a column whose interval overlaps one of theirs: their order may be chance."""
        index, ahead = self._index(key), self.leaders(key)
        if index is None:
            return []
        intervals = [row.cells[index].interval for row in self.rows]
        return [
            i for i, own in enumerate(intervals) if i not in ahead and any(_overlap(own, intervals[j]) for j in ahead)
        ]

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

    def _index(self, key: str) -> int | None:
        return next((i for i, column in enumerate(self.columns) if column.key == key), None)


def written(column: Column, value: float | None) -> str:
    """A value as every table writes it; large ones with thousands set apart."""
    return number(value, column.digits)


def shown(column: Column, cell: TableCell) -> str:
    """The value with its interval, or its spread over seeds."""
    if cell.spread is not None:
        return f"{written(column, cell.value)} ± {number(cell.spread, column.digits)}"
    return with_interval(cell.value, cell.interval, column.digits)


def _overlap(one: tuple[float, float] | None, other: tuple[float, float] | None) -> bool:
    return one is not None and other is not None and one[0] <= other[1] and other[0] <= one[1]


def to_csv(table: Table) -> str:
    """Unrounded numbers; intervals and spreads in columns of their own, and an empty field where there is no value."""
    extras = {
        column.key: [name for name in ("interval", "spread") if any(getattr(row.cells[i], name) for row in table.rows)]
        for i, column in enumerate(table.columns)
    }
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    heads = ["run"]
    for column in table.columns:
        heads.append(_inert(column.key))
        heads += [_inert(f"{column.key} {end}") for end in ("low", "high") if "interval" in extras[column.key]]
        heads += [_inert(f"{column.key} std")] if "spread" in extras[column.key] else []
    writer.writerow(heads)
    for row in table.rows:
        fields: list[float | str | None] = [_inert(row.name)]
        for column, cell in zip(table.columns, row.cells, strict=True):
            fields.append(cell.value)
            fields += (cell.interval or (None, None)) if "interval" in extras[column.key] else ()
            fields += [cell.spread] if "spread" in extras[column.key] else []
        writer.writerow(fields)
    return file.getvalue()


def to_markdown(table: Table) -> str:
    """A pipe table; the best values in bold."""
    heads = ["run", *[_markdown(column.title) for column in table.columns]]
    lines = [heads, ["---", *["---:"] * len(table.columns)]]
    for row in table.rows:
        cells = [_bold(_markdown(shown(c, v)), v, "**", "**") for c, v in zip(table.columns, row.cells, strict=True)]
        lines.append([_markdown(row.name), *cells])
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def to_latex(table: Table) -> str:
    """A tabular in the style of the package booktabs; the best values in bold."""
    heads = ["run", *[_latex(column.title) for column in table.columns]]
    start = rf"\begin{{tabular}}{{l{'r' * len(table.columns)}}}"
    lines = [start, r"\toprule", f"{' & '.join(heads)} \\\\", r"\midrule"]
    for row in table.rows:
        cells = [_bold(_latex(shown(c, v)), v, r"\textbf{", "}") for c, v in zip(table.columns, row.cells, strict=True)]
        lines.append(f"{' & '.join([_latex(row.name), *cells])} \\\\")
    return "\n".join(["% needs \\usepackage{booktabs}", *lines, r"\bottomrule", r"\end{tabular}", ""])


def _bold(text: str, cell: TableCell, before: str, after: str) -> str:
    return f"{before}{text}{after}" if cell.best else text


def _inert(name: str) -> str:
    """Text that a spreadsheet shows instead of computing."""
    return f"'{name}" if name.startswith(FORMULA) else name


def _markdown(text: str) -> str:
    return MARKDOWN_SIGNS.sub(r"\\\1", " ".join(text.split()))


def _latex(text: str) -> str:
    return "".join(LATEX_SIGNS.get(sign, sign) for sign in " ".join(text.split()))
