"""Tables of figures: rows of runs, columns that know which direction is better, best values marked; also as files."""

from __future__ import annotations

import csv
import dataclasses
import io
import re
from collections.abc import Callable, Collection
from itertools import groupby
from typing import Any, Literal

from holdfast.console import table
from holdfast.report.formatting import NONE, number, with_interval

MARK = "*"
"""Follows the best value of a column where there is no bold type."""
DOUBT = "(!)"
"""Stands before a value that is not to be trusted."""
FORMULA = ("=", "+", "-", "@", "\t", "\r")
"""A spreadsheet would compute text that starts with one of these."""
MARKDOWN_SIGNS = re.compile(r"([\\`*_{}\[\]<>|#~$&])")
LATEX_SIGNS = {sign: f"\\{sign}" for sign in "{}$&%#_"} | {
    "\\": r"\textbackslash{}",
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
class TableCell:
    """One value.

    Args:
        value: None where it was not measured.
        interval: its 95 % confidence interval, where there is one.
        spread: standard deviation over seeds, in a row that stands for several runs.
        best: whether nothing in its column is better.
        doubted: whether the audit it is from says not to trust it; it ranks nobody.
    """

    value: float | None = None
    interval: tuple[float, float] | None = None
    spread: float | None = None
    best: bool = False
    doubted: bool = False


@dataclasses.dataclass(frozen=True)
class Column:
    """One figure, of every run.

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
        cells: a value per row.
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
    cells: tuple[TableCell, ...] = ()

    def leaders(self) -> list[int]:
        """Rows with the best value, as it is written, of those to be trusted; none where that sets no row apart."""
        values = {i: cell.value for i, cell in enumerate(self.cells) if cell.value is not None and not cell.doubted}
        texts = {i: number(value, self.digits) for i, value in values.items()}
        if len(set(texts.values())) < 2:
            return []
        best = (max if self.better == "higher" else min)(values, key=values.__getitem__)
        return [i for i, text in texts.items() if text == texts[best]]

    def rivals(self) -> list[int]:
        """Rows behind the leaders whose interval overlaps one of theirs: their order may be chance."""
        ahead = self.leaders()
        first = [self.cells[i].interval for i in ahead]
        behind = [(i, cell.interval) for i, cell in enumerate(self.cells) if i not in ahead and not cell.doubted]
        return [i for i, own in behind if any(_overlap(own, other) for other in first)]

    def marked(self) -> Column:
        """The same with the best marked, ties too; nothing where that may be chance, or where runs are not ranked."""
        ahead = self.leaders() if self.ranked and not self.rivals() else []
        cells = [dataclasses.replace(cell, best=i in ahead) for i, cell in enumerate(self.cells)]
        return dataclasses.replace(self, cells=tuple(cells))

    def shown(self) -> list[str]:
        """Each value with its interval, or its spread over seeds; those not to be trusted behind a sign of warning."""
        texts = [
            with_interval(cell.value, cell.interval, self.digits)
            if cell.spread is None
            else f"{number(cell.value, self.digits)} ± {number(cell.spread, self.digits)}"
            for cell in self.cells
        ]
        return [f"{DOUBT} {text}" if cell.doubted else text for text, cell in zip(texts, self.cells, strict=True)]


@dataclasses.dataclass(frozen=True)
class Table:
    """Figures of runs, or of several seeds of one.

    Args:
        names: of the rows.
        columns: each with a cell per row.
    """

    names: tuple[str, ...]
    columns: tuple[Column, ...]

    def column(self, key: str) -> Column:
        """A column by its key; an empty one where no run has it."""
        empty = Column(key, key, "", "", "", cells=(TableCell(),) * len(self.names))
        return next((column for column in self.columns if column.key == key), empty)

    @property
    def groups(self) -> list[tuple[str, int]]:
        """The heads above the heads, with how many columns each spans."""
        return [(name, len(list(members))) for name, members in groupby(self.columns, key=lambda c: c.group)]

    @property
    def doubted(self) -> bool:
        """Whether some value is not to be trusted."""
        return any(cell.doubted for column in self.columns for cell in column.cells)

    @property
    def led(self) -> bool:
        """Whether some value is marked as the best of its column."""
        return any(cell.best for column in self.columns for cell in column.cells)

    def without_empty(self) -> Table:
        """Only the columns in which some row has a value."""
        filled = [column for column in self.columns if any(cell.value is not None for cell in column.cells)]
        return Table(self.names, tuple(filled))

    def headlines(self) -> Table:
        """Only the columns of the short table."""
        return Table(self.names, tuple(column for column in self.columns if column.headline))

    def marked(self, refused: Collection[str] = ()) -> Table:
        """The same with the best of every column marked, ties too.

        A value ties with another that is written the same. Nothing is marked where all are the same, where fewer than
        two rows have a value, where the interval of the best overlaps that of another, or in columns that are not
        ranked or of a refused source.

        Args:
            refused: sources whose rows were measured under different conditions.
        """
        return Table(self.names, tuple(c if c.source in refused else c.marked() for c in self.columns))

    def text(self) -> str:
        """For the terminal; the best values end in a star."""
        columns = []
        for column in self.columns:
            other = " " if any(cell.best for cell in column.cells) else ""
            shown = zip(column.shown(), column.cells, strict=True)
            columns.append([text + (MARK if cell.best else other) for text, cell in shown])
        heads = ["run", *[column.title for column in self.columns]]
        return table(heads, list(zip(self.names, *columns, strict=True)))

    def plain(self) -> dict[str, Any]:
        """As JSON has it: per row the value, interval, spread and mark of every column."""
        columns = [dataclasses.asdict(column) for column in self.columns]
        cells = {column["key"]: column.pop("cells") for column in columns}
        rows = [
            {"name": name, "values": {key: column[i] for key, column in cells.items()}}
            for i, name in enumerate(self.names)
        ]
        return {"columns": columns, "rows": rows}


def _overlap(one: tuple[float, float] | None, other: tuple[float, float] | None) -> bool:
    return one is not None and other is not None and one[0] <= other[1] and other[0] <= one[1]


def to_csv(table: Table) -> str:
    """Unrounded numbers; intervals and spreads in columns of their own, and an empty field where there is no value."""
    columns: list[list[float | str | None]] = [["run", *map(_inert, table.names)]]
    for column in table.columns:
        head, cells = _inert(column.key), column.cells
        columns.append([head, *[cell.value for cell in cells]])
        if any(cell.interval for cell in cells):
            for i, end in enumerate(("low", "high")):
                columns.append([f"{head} {end}", *[cell.interval[i] if cell.interval else None for cell in cells]])
        if any(cell.doubted for cell in cells):
            columns.append([f"{head} doubted", *["yes" if cell.doubted else None for cell in cells]])
        if any(cell.spread for cell in cells):
            columns.append([f"{head} std", *[cell.spread for cell in cells]])
    file = io.StringIO()
    csv.writer(file, lineterminator="\n").writerows(zip(*columns, strict=True))
    return file.getvalue()


def to_markdown(table: Table) -> str:
    """A pipe table; the best values in bold."""
    head, *rows = _lines(table, _markdown, "**", "**")
    return "".join(f"| {' | '.join(line)} |\n" for line in (head, ["---", *["---:"] * len(table.columns)], *rows))


def to_latex(table: Table) -> str:
    """A tabular in the style of the package booktabs; the best values in bold."""
    head, *rows = [f"{' & '.join(line)} \\\\" for line in _lines(table, _latex, r"\textbf{", "}")]
    start = rf"\begin{{tabular}}{{l{'r' * len(table.columns)}}}"
    body = [start, r"\toprule", head, r"\midrule", *rows, r"\bottomrule", r"\end{tabular}"]
    return "\n".join(["% needs \\usepackage{booktabs}", *body, ""])


def _lines(table: Table, escaped: Callable[[str], str], before: str, after: str) -> list[tuple[str, ...]]:
    """The head and every row, the best values between two marks."""
    columns = []
    for column in table.columns:
        texts = [escaped(text) for text in column.shown()]
        cells = [f"{before}{t}{after}" if c.best else t for t, c in zip(texts, column.cells, strict=True)]
        columns.append([escaped(column.title), *cells])
    return list(zip(["run", *map(escaped, table.names)], *columns, strict=True))


def _inert(name: str) -> str:
    """Text that a spreadsheet shows instead of computing."""
    return f"'{name}" if name.startswith(FORMULA) else name


def _markdown(text: str) -> str:
    return MARKDOWN_SIGNS.sub(r"\\\1", " ".join(text.split()))


def _latex(text: str) -> str:
    return "".join(LATEX_SIGNS.get(sign, sign) for sign in " ".join(text.split()))
