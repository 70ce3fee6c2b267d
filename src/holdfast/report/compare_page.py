"""The page of a comparison."""

from __future__ import annotations

import os
from collections.abc import Collection, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.parse import quote

from holdfast.audit.ers import SCORES
from holdfast.files import write_atomic
from holdfast.report.compare_charts import eps_curves, learning_curves, tradeoff
from holdfast.report.comparison import ModelComparison, read_comparison
from holdfast.report.formatting import NONE, number, setting, short
from holdfast.report.images import BUDGET, PageImages
from holdfast.report.public import public_path
from holdfast.report.render import SCRIPTS, render
from holdfast.report.runs import ComparedRun, Document
from holdfast.report.sections.flags import LEVELS
from holdfast.report.sections.recipe import name_of
from holdfast.report.sections.strips import shown_strip
from holdfast.report.tables import Column, Table, to_csv, to_latex, to_markdown
from holdfast.robustness import ROBUST
from holdfast.run_files import block, blocks, is_fitted
from holdfast.run_folder import DAMAGED
from holdfast.version import __version__

MOST = 4
"""Queries shown; more repeat the lesson."""
GENERAL = "Accuracy, robustness and cost"


def compare(
    folders: Sequence[str | Path], out: str | Path = "compare.html", images: bool = True, note: str = ""
) -> Path:
    """Write one self-contained page that compares runs, and return where it is.

    Args:
        folders: run folders, or folders an audit was written to; one is enough.
        out: the page.
        images: False leaves every image out, for private data.
        note: what a reader should know first, as a line under the headline.
    """
    return write_comparison(read_comparison(folders), Path(out), images, note)


def write_comparison(comparison: ModelComparison, out: Path, images: bool = True, note: str = "") -> Path:
    """Write the page of a comparison that was read, as `compare` does."""
    runs, table = comparison.runs, comparison.table
    robust = robustness_column(table)
    ranked = not comparison.unfair.keys() & {"clean", robust.source}
    finding, price = findings(table, robust, ranked)
    page = render(
        "compare.html",
        scripts=(*SCRIPTS, "compare.js"),
        title=f"{_heading(runs)} – holdfast",
        heading=_heading(runs),
        runs=runs,
        table=table,
        seeds=comparison.seeds,
        unfair=comparison.unfair,
        missing=comparison.missing,
        cards=[(run, _words(run), _link(run.files.folder / "report.html", out)) for run in runs],
        finding=finding,
        price=price,
        doubt=doubt(table, robust, comparison.unfair),
        note=note,
        ranked=ranked,
        tradeoff=tradeoff(runs, table, robust, ranked),
        doubted_names=[run.name for run, cell in zip(runs, robust.cells, strict=True) if cell.doubted],
        scores=SCORES,
        heat=heat(runs, table),
        eps=eps_curves(runs),
        learning=learning_curves(runs),
        differences=recipe_differences(runs),
        queries=shared_queries(runs) if images else [],
        exports={
            "csv": to_csv(table),
            "markdown": to_markdown(table),
            "latex": to_latex(table),
            "seeds": "" if comparison.seeds is None else to_csv(comparison.seeds),
        },
        levels=LEVELS,
        version=__version__,
    )
    out.parent.mkdir(parents=True, exist_ok=True)
    write_atomic(out, page)
    return out


def robustness_column(table: Table) -> Column:
    """What runs are ranked by: robust R@1 if all that were attacked have it and it tells them apart, otherwise ERS."""
    robust, ers = table.column(ROBUST), table.column("ERS")
    known = all(r.value is not None for r, e in zip(robust.cells, ers.cells, strict=True) if e.value is not None)
    return robust if known and robust.leaders() else ers


def findings(table: Table, robust: Column, ranked: bool) -> tuple[str, str]:
    """Who finds most and who withstands most, in a sentence, and what the step from one to the other gives and takes.

    The first is empty and the second general where that cannot be said, or where it may be chance.

    Args:
        table: the figures.
        robust: what the runs are ranked by.
        ranked: whether the runs were measured alike.
    """
    recall, name = table.column("R@1"), robust.key
    accurate, hardest = _first(recall), _first(robust)
    if not ranked or accurate is None or hardest is None:
        return "", GENERAL
    most, least = table.names[accurate], table.names[hardest]
    (r1, less_r1), (weak, score) = ([c.cells[i].value or 0.0 for i in (accurate, hardest)] for c in (recall, robust))
    finds, holds = f"finds most (R@1 {number(r1)})", f"withstands most ({name} {number(score)})"
    claims = {f"{most} {finds}": recall, f"{least} {holds}": robust}
    sure = [claim for claim, column in claims.items() if not column.rivals()]
    if len(sure) < len(claims):
        return "".join(f"{claim}." for claim in sure), GENERAL
    if accurate == hardest:
        return f"{most} is ahead in both: it {finds} and {holds}.", GENERAL
    if robust.cells[accurate].value is None or robust.cells[accurate].doubted:
        return f"{'; '.join(sure)}.", GENERAL
    more, less = (round(a, 1) - round(b, 1) for a, b in ((score, weak), (r1, less_r1)))  # as they are shown
    return f"{'; '.join(sure)}.", f"From {most} to {least}: {number(more)} more {name} for {number(less)} less R@1"


def doubt(table: Table, robust: Column, refused: Collection[str]) -> str:
    """A sentence each where the intervals of the best and of others overlap, and on what the worst attack leaves."""
    sentences = []
    for key, column in (("R@1", table.column("R@1")), (robust.key, robust)):
        best, near = _first(column), [table.names[i] for i in column.rivals()]
        if column.source in refused or best is None or not near:
            continue
        others = ", ".join(near) if len(near) < 4 else f"{len(near)} others"
        own = f"The {key} interval of {table.names[best]}"
        sentences.append(f"{own} overlaps that of {others}: their order may be chance.")
    left = {number(cell.value) for cell in table.column(ROBUST).cells if cell.value is not None and not cell.doubted}
    if robust.key != ROBUST and len(left) == 1:
        sentences.append(f"The worst attack leaves them all the same robust R@1, {left.pop()}: ERS is an average.")
    return " ".join(sentences)


def _first(column: Column) -> int | None:
    """The one row that is best in a column."""
    best = column.leaders()
    return best[0] if len(best) == 1 else None


def heat(runs: Sequence[ComparedRun], table: Table) -> list[tuple[ComparedRun, list[float | None], float | None]]:
    """What each attack leaves, its term of ERS, and ERS, per run that has any."""
    columns = [(score.term, table.column(key).cells) for key, score in SCORES.items()]
    rows = []
    for run, total in zip(runs, table.column("ERS").cells, strict=True):
        values = [(term, cells[run.number].value) for term, cells in columns]
        terms = [None if value is None else float(term(value)) for term, value in values]
        if any(term is not None for term in terms):
            rows.append((run, terms, total.value))
    return rows


def _heading(runs: Sequence[ComparedRun]) -> str:
    names = [run.name for run in runs]
    if len(names) == 1:
        return names[0]
    if len(names) > 4 or sum(map(len, names)) > 80:
        return f"{len(names)} runs compared"
    return f"{', '.join(names[:-1])} and {names[-1]} compared"


def _words(run: ComparedRun) -> str:
    """A run at a glance."""
    recipe = run.files.recipe
    if is_fitted(recipe):
        return "fitted head"
    parts = [short(name) for key in ("regime", "loss") if (name := block(recipe, key).get("name"))]
    parts += [f"{recipe['epochs']} epochs"] if recipe.get("epochs") else []
    return " · ".join(parts) or "audited model"


def _link(page: Path, out: Path) -> str:
    """How `out` refers to another page; nothing where that is not there."""
    return quote(Path(os.path.relpath(page.resolve(), out.resolve().parent)).as_posix()) if page.is_file() else ""


def shared_queries(runs: Sequence[ComparedRun]) -> list[Document]:
    """Queries that the exhibits of two or more runs have in common, with the matches each model finds.

    A query is the same when its image is, byte by byte.
    """
    asked: dict[str, dict[int, Document]] = {}
    for run in runs:
        images = PageImages(run.files.folder / "artifacts")
        for strip in blocks(run.files.exhibits, "strips"):
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
