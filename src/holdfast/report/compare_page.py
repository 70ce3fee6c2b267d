"""What the page of a comparison shows."""

from __future__ import annotations

import os
from collections.abc import Sequence
from itertools import groupby
from pathlib import Path
from typing import Any
from urllib.parse import quote

from holdfast.report.columns import ERS_COLUMNS
from holdfast.report.compare_charts import cell, learning_curves, radius_curves, tradeoff
from holdfast.report.comparison import Comparison
from holdfast.report.formatting import number, short
from holdfast.report.recipe_differences import recipe_differences
from holdfast.report.render import render
from holdfast.report.runs import ComparedRun, Document
from holdfast.report.sections.flags import LEVELS
from holdfast.report.sections.recipe import block
from holdfast.report.shared_queries import shared_queries
from holdfast.report.table_files import to_csv, to_latex, to_markdown
from holdfast.report.tables import Table, shown, written
from holdfast.report.withstood import withstood
from holdfast.version import __version__


def comparison_page(comparison: Comparison, out: Path, images: bool, note: str = "") -> str:
    """The page as text.

    Args:
        comparison: what it shows.
        out: where it will lie, so that links to the runs' own pages are right.
        images: False leaves every picture out.
        note: a line under the headline.
    """
    runs, table = comparison.runs, comparison.table
    refused = {entry.source for entry in comparison.unfair}
    return render(
        "compare.html",
        scripts=("page.js", "compare.js"),
        title=f"{_heading(runs)} – holdfast",
        heading=_heading(runs),
        runs=runs,
        cards=[_card(run, i, table, out) for i, run in enumerate(runs)],
        finding=finding(table, refused),
        price=price(table, refused),
        doubt=doubt(table, refused),
        note=note,
        unfair=comparison.unfair,
        missing=comparison.missing,
        ranked=not refused & {"clean", "ers"},
        tradeoff=tradeoff(runs, table, ranked=not refused & {"clean", "ers"}),
        table=table,
        groups=column_groups(table),
        seeds=comparison.seeds,
        seed_groups=column_groups(comparison.seeds) if comparison.seeds else [],
        heat=heat(runs, table),
        radius=radius_curves(runs),
        learning=learning_curves(runs),
        differences=recipe_differences(runs),
        queries=shared_queries(runs) if images else [],
        exports={"csv": to_csv(table), "markdown": to_markdown(table), "latex": to_latex(table)},
        shown=shown,
        written=written,
        unbroken=_unbroken,
        levels=LEVELS,
        doubted=[run for run in runs if run.flags],
        sound=", ".join(run.name for run in runs if run.audits and not run.flags),
        unaudited=", ".join(run.name for run in runs if not run.audits),
        version=__version__,
    )


def finding(table: Table, refused: set[str]) -> str:
    """Who finds most and who withstands most, in a sentence; empty where that cannot be said."""
    pair = _leaders(table, refused)
    if pair is None:
        return ""
    (accurate, robust), (r1, ers) = pair, (cell(table, i, k).value for i, k in zip(pair, ("R@1", "ERS"), strict=True))
    most, least = table.rows[accurate].name, table.rows[robust].name
    if accurate == robust:
        return f"{most} is ahead in both: it finds most (R@1 {number(r1)}) and withstands most (ERS {number(ers)})."
    return f"{most} finds most (R@1 {number(r1)}); {least} withstands most (ERS {number(ers)})."


def price(table: Table, refused: set[str]) -> str:
    """What the step from the most accurate to the most robust run gives and takes."""
    pair = _leaders(table, refused)
    if pair is None or pair[0] == pair[1]:
        return "Accuracy, robustness and cost"
    accuracy, robustness = ([cell(table, i, key).value or 0.0 for i in pair] for key in ("R@1", "ERS"))
    gained, lost = number(robustness[1] - robustness[0]), number(accuracy[0] - accuracy[1])
    return f"From {table.rows[pair[0]].name} to {table.rows[pair[1]].name}: {gained} more ERS for {lost} less R@1"


def doubt(table: Table, refused: set[str]) -> str:
    """A sentence each where the intervals of the best R@1 or ERS and of others overlap."""
    sentences = []
    for key, source in (("R@1", "clean"), ("ERS", "ers")):
        best, near = _first(table, key), [table.rows[i].name for i in table.rivals(key)]
        if source in refused or best is None or not near:
            continue
        others = ", ".join(near) if len(near) < 4 else f"{len(near)} others"
        own = f"The {key} interval of {table.rows[best].name}"
        sentences.append(f"{own} overlaps that of {others}: their order may be chance.")
    return " ".join(sentences)


def column_groups(table: Table) -> list[tuple[str, int]]:
    """The heads above the heads, with how many columns each spans."""
    return [(name, len(list(members))) for name, members in groupby(table.columns, key=lambda c: c.group)]


def heat(runs: Sequence[ComparedRun], table: Table) -> Document | None:
    """What each attack leaves, 0 to 100, per run; None where no run has an ERS."""
    keys = [column for column in ERS_COLUMNS if column.key != "ERS"]
    rows = []
    for i, run in enumerate(runs):
        scores = [withstood(column.key, cell(table, i, column.key).value) for column in keys]
        if any(score is not None for score in scores):
            rows.append((run, scores, cell(table, i, "ERS").value))
    return {"columns": keys, "rows": rows} if rows else None


def _heading(runs: Sequence[ComparedRun]) -> str:
    names = [run.name for run in runs]
    if len(names) == 1:
        return names[0]
    if len(names) > 4 or sum(map(len, names)) > 80:
        return f"{len(names)} runs compared"
    return f"{', '.join(names[:-1])} and {names[-1]} compared"


def _card(run: ComparedRun, row: int, table: Table, out: Path) -> dict[str, Any]:
    """A run at a glance."""
    parts = [block(run.files.recipe, key).get("name") for key in ("regime", "loss")]
    epochs = run.files.recipe.get("epochs")
    words = [short(part) for part in parts if part] + ([f"{epochs} epochs"] if epochs else [])
    return {
        "run": run,
        "words": " · ".join(words) or "audited model",
        "accuracy": cell(table, row, "R@1"),
        "robustness": cell(table, row, "ERS"),
        "seconds": cell(table, row, "seconds").value,
        "link": _link(run.files.folder / "report.html", out),
    }


def _link(page: Path, out: Path) -> str:
    """How `out` refers to another page; nothing where that is not there."""
    return quote(Path(os.path.relpath(page.resolve(), out.resolve().parent)).as_posix()) if page.is_file() else ""


def _unbroken(text: str) -> str:
    """A headline whose names do not break at their hyphens."""
    return text.replace("-", "\u2011")


def _leaders(table: Table, refused: set[str]) -> tuple[int, int] | None:
    """The rows of the best R@1 and the best ERS, where both can be told."""
    accurate, robust = _first(table, "R@1"), _first(table, "ERS")
    return None if refused & {"clean", "ers"} or accurate is None or robust is None else (accurate, robust)


def _first(table: Table, key: str) -> int | None:
    """The one row that is best in a column."""
    best = table.leaders(key)
    return best[0] if len(best) == 1 else None
