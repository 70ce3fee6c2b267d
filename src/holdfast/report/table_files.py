"""Tables as other programs read them: CSV, Markdown and LaTeX."""

from __future__ import annotations

import csv
import io
import re

from holdfast.report.formatting import NONE
from holdfast.report.tables import Cell, Table, shown

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
        heads.append(column.key)
        heads += [f"{column.key} {end}" for end in ("low", "high") if "interval" in extras[column.key]]
        heads += [f"{column.key} std"] if "spread" in extras[column.key] else []
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


def _bold(text: str, cell: Cell, before: str, after: str) -> str:
    return f"{before}{text}{after}" if cell.best else text


def _inert(name: str) -> str:
    """Text that a spreadsheet shows instead of computing."""
    return f"'{name}" if name.startswith(FORMULA) else name


def _markdown(text: str) -> str:
    return MARKDOWN_SIGNS.sub(r"\\\1", " ".join(text.split()))


def _latex(text: str) -> str:
    return "".join(LATEX_SIGNS.get(sign, sign) for sign in " ".join(text.split()))
