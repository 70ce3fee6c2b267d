"""What the page of a comparison shows."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import suppress
from itertools import groupby
from pathlib import Path
from typing import Any
from urllib.parse import quote

from holdfast.audit.ers import SCORES
from holdfast.report.compare_charts import cell, eps_curves, learning_curves, tradeoff
from holdfast.report.comparison import Comparison
from holdfast.report.formatting import NONE, number, setting, short
from holdfast.report.images import BUDGET, PageImages
from holdfast.report.public import public_path
from holdfast.report.render import render
from holdfast.report.runs import ComparedRun, Document
from holdfast.report.sections.flags import LEVELS
from holdfast.report.sections.recipe import name_of
from holdfast.report.sections.strips import shown_strip
from holdfast.report.tables import Table, shown, to_csv, to_latex, to_markdown, written
from holdfast.run_files import block
from holdfast.run_folder import DAMAGED
from holdfast.version import __version__

MOST = 4
"""Queries shown; more repeat the lesson."""


def comparison_page(comparison: Comparison, out: Path, images: bool, note: str = "") -> str:
    """The page as text.

    Args:
        comparison: what it shows.
        out: where it will lie, so that links to the runs' own pages are right.
        images: False leaves every image out.
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
        eps=eps_curves(runs),
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
    """What each attack leaves, its term of ERS, per run; None where no run has an ERS."""
    rows = []
    for i, run in enumerate(runs):
        values = {key: cell(table, i, key).value for key in SCORES}
        scores = [None if (value := values[key]) is None else float(SCORES[key].term(value)) for key in SCORES]
        if any(score is not None for score in scores):
            rows.append((run, scores, cell(table, i, "ERS").value))
    return {"scores": SCORES, "rows": rows} if rows else None


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


def shared_queries(runs: Sequence[ComparedRun]) -> list[Document]:
    """Queries that the exhibits of two or more runs have in common, with the matches each model finds.

    A query is the same when its image is, byte by byte.
    """
    asked: dict[str, dict[int, Document]] = {}
    for run in runs:
        strips = run.files.exhibits.get("strips")
        images = PageImages(run.files.folder / "artifacts")
        for strip in strips if isinstance(strips, list) else ():
            source = images.source(block(strip, "query").get("file"))
            with suppress(*DAMAGED):
                if source is not None:
                    asked.setdefault(source, {})[run.number] = shown_strip(strip, images)
    most = max((len(strips) for strips in asked.values()), default=0)
    shown: list[Document] = []
    size = 0
    for answers in asked.values():
        if most < 2 or len(answers) < most or len(shown) == MOST:
            continue
        first = next(iter(answers.values()))
        replies = [{"run": runs[i], **answer} for i, answer in answers.items()]
        size += len(str(replies))
        if size > BUDGET:
            break
        shown.append({"image": first["query"], "label": str(first["label"]), "answers": replies})
    return shown


def recipe_differences(runs: Sequence[ComparedRun]) -> list[tuple[str, list[str]]]:
    """Every key whose value is not the same in all recipes, with its value in each run.

    A run without a recipe has a dash everywhere and makes no difference. Where lists name different methods, the
    settings of those are left out. How models saw the images comes last: a recipe may leave that to the backbone.
    """
    recipes = [flat(run.files.recipe) for run in runs]
    known = [recipe for recipe in recipes if recipe]
    keys = dict.fromkeys(key for recipe in known for key in recipe)
    different = [key for key in keys if len({repr(recipe.get(key, NONE)) for recipe in known}) > 1]
    told = [key for key in different if not any(key.startswith(f"{above}.") for above in different)]
    found = [(key, [_written(recipe.get(key, NONE)) for recipe in recipes]) for key in told]
    views = [run.files.view or NONE for run in runs]
    return found if len({*views} - {NONE}) < 2 else [*found, ("images seen as", views)]


def flat(nested: Document, where: str = "") -> Document:
    """A recipe as key.path → value; a list of methods is the list of their names, each with settings below it."""
    found: Document = {}
    for key, value in nested.items():
        path = f"{where}{key}"
        if isinstance(value, dict) and value:
            found |= flat(value, f"{path}.")
        elif isinstance(value, list) and any(isinstance(item, dict) for item in value):
            found[path] = [name_of(item) for item in value]
            for i, item in enumerate(value):
                found |= flat(item, f"{path}.{i}.") if isinstance(item, dict) else {}
        else:
            found[path] = value
    return found


def _written(value: Any) -> str:
    """As YAML has it, but numbers as people write them and of private paths the last part."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float):
        return setting(value)
    if isinstance(value, list):
        return ", ".join(_written(item) for item in value) or "[]"
    return public_path(value, "…/")
