"""Put runs beside each other: one table, one page.

holdfast compare runs/standard runs/hm --out compare.html
"""

from __future__ import annotations

import argparse

from holdfast.cli.parsing import CommandResult, Parser, shared, writable
from holdfast.errors import harmless


def arguments(sub: Parser) -> None:
    """Declare the options."""
    sub.add_argument("runs", nargs="+", metavar="RUN", help="a folder that `holdfast train` or `holdfast audit` wrote")
    sub.add_argument("--out", default="compare.html", help="the page (default: compare.html)")
    sub.add_argument("--csv", metavar="FILE", help="also write the table as CSV")
    sub.add_argument("--markdown", metavar="FILE", help="also write the table as Markdown")
    sub.add_argument("--latex", metavar="FILE", help="also write the table as LaTeX")
    shared(sub, "--no-images")


def run(options: argparse.Namespace) -> CommandResult:
    """Write the page and the files asked for."""
    from holdfast.files import write_atomic
    from holdfast.report.compare_page import write_comparison
    from holdfast.report.comparison import read_comparison
    from holdfast.report.tables import to_csv, to_latex, to_markdown

    comparison = read_comparison(options.runs)
    written = [write_comparison(comparison, writable(options.out), images=not options.no_images)]
    for file, write in ((options.csv, to_csv), (options.markdown, to_markdown), (options.latex, to_latex)):
        if file:
            written.append(writable(file))
            write_atomic(written[-1], write(comparison.table))
    lines = [comparison.table.headlines().text()]
    if comparison.seeds:
        lines += ["", comparison.seeds.headlines().text()]
    serious = [(r.name, flag) for r in comparison.runs for flag in r.flags if flag["level"] != "note"]
    lines += ["", *[f"{name}: {f['level'].upper()} {f['name']}: {f['why']}." for name, f in serious]] if serious else []
    if comparison.unfair:
        lines += ["", "Not measured alike, so no best is marked there:", *comparison.unfair.values()]
    lines += ["", *[str(entry) for entry in comparison.missing]] if comparison.missing else []
    words = harmless("\n".join([*lines, f"written to {', '.join(map(str, written))}"]))
    return {**comparison.plain(), "written": [str(file) for file in written]}, words
