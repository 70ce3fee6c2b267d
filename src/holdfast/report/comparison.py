"""Several runs beside each other: their figures, whether they were measured alike, and what they lack."""

from __future__ import annotations

import dataclasses
import json
import re
import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from holdfast.errors import HoldfastError
from holdfast.report.formatting import eps, number, short
from holdfast.report.public import model_command, public_values, spec
from holdfast.report.runs import ComparedRun, Document, read_runs, table_of
from holdfast.report.tables import Table, TableCell
from holdfast.run_files import block, data_block

TITLES = {
    "clean": "Clean metrics",
    "robust": "Robust R@1",
    "natural": "Everyday damage",
    "thorough": "The thorough audit",
}
WORDS = {"data.name": "data", "content": "data", "eps_pixel": "eps"}
SEED_MARK = re.compile(r"[-_. /(]+(s|seed)?[-_=]*$")
NO_TEST_SPLIT = ("validation", "validation_seed", "train_fraction", "fraction_seed", "skip_bad")
"""Keys of a data block that leave the test images as they are."""


@dataclasses.dataclass(frozen=True)
class MissingResult:
    """Something a run lacks.

    Args:
        why: one sentence.
        command: what adds it, if one command does.
        shown_command: the same for the page, which names no private folders.
    """

    why: str
    command: str = ""
    shown_command: str = ""

    def __str__(self) -> str:
        return f"{self.why}: {self.command}" if self.command else self.why


@dataclasses.dataclass(frozen=True)
class ModelComparison:
    """Runs with their figures.

    Args:
        runs: in the order given.
        table: a row per run, the best of every fairly measured column marked.
        seeds: a row per recipe that was run with several seeds, if there is one.
        unfair: measurements that were not made alike, whose columns have no best, and what differs, in one sentence.
        missing: what runs lack, and what adds it.
    """

    runs: list[ComparedRun]
    table: Table
    seeds: Table | None
    unfair: dict[str, str]
    missing: list[MissingResult]

    def plain(self) -> dict[str, Any]:
        """As `--json` prints it."""
        return {
            "schema": 1,
            "runs": [{"name": run.name, "folder": str(run.files.folder), "flags": run.flags} for run in self.runs],
            "table": self.table.plain(),
            "seeds": None if self.seeds is None else self.seeds.plain(),
            "unfair": [{"source": source, "line": line} for source, line in self.unfair.items()],
            "missing": [{"why": entry.why, "command": entry.command} for entry in self.missing],
        }


def read_comparison(folders: Sequence[str | Path]) -> ModelComparison:
    """Read the runs and rank them where that is fair.

    Args:
        folders: run folders, or folders an audit was written to.
    """
    if not folders:
        raise HoldfastError("nothing to compare; give one or more run folders")
    runs = read_runs(folders)
    different = unfair(runs)
    table = table_of(runs)
    seeds = seed_summary(runs, table)
    return ModelComparison(
        runs,
        table.marked(different),
        None if seeds is None else seeds.marked(different),
        different,
        [line for run in runs for line in _missing(run)],
    )


def _missing(run: ComparedRun) -> list[MissingResult]:
    """What this run lacks, and the command that adds it."""
    lines = [MissingResult(f"{run.name}: {file} is damaged and was left out") for file in run.files.damaged]
    if not run.files.evaluation and run.files.recipe:
        lines.append(
            MissingResult(f"{run.name} is not finished; run the `holdfast train` command that started it again")
        )
    elif "ers" not in run.audits:
        commands = (model_command("audit", run.files, private) for private in (True, False))
        lines.append(MissingResult(f"{run.name} has no ERS yet", *commands))
    return lines


@dataclasses.dataclass(frozen=True)
class Conditions:
    """How something was measured.

    Args:
        values: everything that must be alike for figures to be compared; `content` identifies the images.
        complete: whether every setting of the data is among them; a model that was only audited has those that were
            typed.
    """

    values: Document
    complete: bool


def unfair(runs: Sequence[ComparedRun]) -> dict[str, str]:
    """Every measurement whose conditions differ between the runs that have it, and how, in one sentence."""
    found = {}
    for source in dict.fromkeys(source for run in runs for source in run.measured):
        conditions = {run.name: known for run in runs if (known := measured_on(run, source))}
        different = differing(list(conditions.values()))
        if different:
            told = "; ".join(_told(key, conditions) for key in different)
            found[source] = f"{TITLES.get(source, source.upper())}: {told}"
    return found


def measured_on(run: ComparedRun, source: str) -> Conditions | None:
    """The conditions of a measurement; None where it was not made."""
    document = run.measured.get(source)
    if not document:
        return None
    data = data_block(document)
    own = data_block(run.files.evaluation)
    of_own = bool(own) and all(own.get(key) == value for key, value in data.items())
    settings = {f"data.{k}": v for k, v in (own | data if of_own else data).items() if k not in NO_TEST_SPLIT}
    values = {**{key: document.get(key) for key in ("split", "images", "content")}, **settings}
    if source != "clean":
        limit = document.get("limit")
        values |= {key: document.get(key) for key in ("gallery", "limit")}
        values |= {"seed": document.get("seed") if limit else None}  # chooses the images that a limit leaves
        values |= _attacked_with(source, document)
    return Conditions(values, of_own)


def _attacked_with(source: str, document: Document) -> Document:
    """How hard the attacks were; those behind robust R@1 are the same in every protocol and mode."""
    if source == "robust":
        told = block(document, "robust")
        return {"eps_pixel": told.get("eps"), "norm": told.get("norm"), "first look": document.get("quick") is True}
    budget = block(document, "budget")
    strength = {key: budget.get(key) for key in ("eps_pixel", "steps", "norm", "method")}
    return {"mode": document.get("mode"), **block(document, "settings"), **strength}


def differing(conditions: Sequence[Conditions]) -> list[str]:
    """The keys in which conditions differ, without those that only follow from others of them.

    Data are the same when the images and their classes are, wherever they lie; names and settings are compared only
    where a measurement of before kept no digest of them.
    """
    by_content = all(known.values["content"] for known in conditions)
    mixed = len({known.complete for known in conditions}) > 1

    def values(key: str) -> set[str]:
        unsaid = mixed and key.startswith("data.")
        return {_text(key, known.values.get(key)) for known in conditions if key in known.values or not unsaid}

    keys = dict.fromkeys(key for known in conditions for key in known.values)
    left = [key for key in keys if not (key.startswith("data.") if by_content else key == "content")]
    found = [key for key in left if len(values(key)) > 1]
    if data := {"data.name", "content"} & {*found}:
        found = [k for k in found if k in data or not (k.startswith("data.") or k in ("images", "gallery"))]
    return [k for k in found if "limit" not in found or k not in ("images", "seed")]


def seed_summary(runs: Sequence[ComparedRun], table: Table) -> Table | None:
    """Runs whose recipes differ only in the seed as one row each: mean and standard deviation.

    A figure that not all seeds have, or that was not measured alike for them, stays out. None where no recipe was run
    with two or more seeds.

    Args:
        runs: in the order of the table's rows.
        table: their figures.
    """
    groups: dict[str, list[int]] = {}
    for i, run in enumerate(runs):
        if run.files.recipe:
            rest = {key: value for key, value in run.files.recipe.items() if key != "seed"}
            groups.setdefault(_text("recipe", rest), []).append(i)
    names, kept = [], []
    for members in groups.values():
        seeds = {_text("seed", runs[i].files.recipe.get("seed")) for i in members}
        if len(seeds) < 2 or len(seeds) < len(members):
            continue
        names.append(f"{_stem([runs[i].name for i in members])} ({len(members)} seeds)")
        kept.append((members, unfair([runs[i] for i in members])))
    columns = []
    for column in table.columns:
        cells = [
            TableCell() if column.source in refused else _mean([column.cells[i] for i in members])
            for members, refused in kept
        ]
        columns.append(dataclasses.replace(column, cells=tuple(cells)))
    return Table(tuple(names), tuple(columns)).without_empty() if names else None


def _mean(cells: Sequence[TableCell]) -> TableCell:
    known = [cell.value for cell in cells if cell.value is not None]
    if len(known) < len(cells):
        return TableCell()
    try:
        doubted = any(cell.doubted for cell in cells)
        return TableCell(statistics.fmean(known), spread=statistics.stdev(known), doubted=doubted)
    except OverflowError:
        return TableCell()


def _stem(names: Sequence[str]) -> str:
    """What the names start with alike, up to a seed's mark; the first of them where they share too little to read."""
    first, last = min(names), max(names)
    length = next((i for i, pair in enumerate(zip(first, last, strict=False)) if pair[0] != pair[1]), len(first))
    start = first[:length]
    stem = SEED_MARK.sub("", start)
    return stem if stem and (stem != start or len(stem) > 2) else names[0]


def _told(key: str, conditions: dict[str, Conditions]) -> str:
    """`limit 200 (a, b) and 500 (c)`."""
    names: dict[str, list[str]] = {}
    said: dict[str, str] = {}
    for name, known in conditions.items():
        text = _text(key, known.values.get(key))
        names.setdefault(text, []).append(name)
        said[text] = _said(key, known.values)
    if key == "content" and len({*said.values()}) < len(said):  # other images under the same name
        said = {text: f"{words} [{text[1:9]}]" for text, words in said.items()}
    listed = [f"{said[text]} ({', '.join(those)})" for text, those in names.items()]
    return f"{WORDS.get(key, key)} {' and '.join(listed)}"


def _said(key: str, values: Document) -> str:
    """A condition in words; in place of a digest, which tells nobody where to look, the data."""
    if key == "content":
        return spec({name.removeprefix("data."): value for name, value in values.items()})
    if key == "eps_pixel":
        return number(values.get(key), 2) if values.get("norm") == "l2" else eps(values.get(key))
    return "none" if values.get(key) is None else short(public_values(values[key]))


def _text(key: str, value: Any) -> str:
    """Equal for equal values; eps are compared as they are shown, not to the last bit."""
    return eps(value) if key == "eps_pixel" else json.dumps(value, sort_keys=True, default=str)
