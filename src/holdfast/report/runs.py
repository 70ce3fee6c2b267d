"""The runs of a comparison, under names that tell them apart, and the columns of what was measured of them."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from holdfast.metric_info import MetricInfo
from holdfast.report.charts import KINDS
from holdfast.report.formatting import described, span
from holdfast.report.sections.flags import all_flags
from holdfast.report.tables import Column, Table, TableCell
from holdfast.robustness import ROBUST, doubts, of_ensemble, worst_case
from holdfast.run_files import ON_TEST, START, block, finite
from holdfast.run_folder import RunFiles, read_run

Document = dict[str, Any]
GROUPS = {
    "clean": "Clean retrieval",
    "robust": "Under attack",
    "ers": "Under attack",
    "natural": "Everyday damage",
    "cost": "Cost",
}
OTHER = "Other audits"
WORST = MetricInfo("queries that find their class whatever the attack, %", digits=1, shown="headline")
MOVED = MetricInfo("pairs in which one changed gallery image enters or leaves the first of a list, %", "", "lower", 1)
RECALL = MetricInfo("queries whose nearest image is of their class, %", digits=1, shown="headline")
BEFORE = MetricInfo("R@1 of the model that training started from, %", "R@1 before", None, 1)
# Runs do not record their machine, so seconds rank nobody.
COSTS = {
    "seconds": MetricInfo("seconds in training steps, on the machine used", "train s", None, 0, "headline"),
    "passes": MetricInfo("runs of the model, forward and back, per step", "", "lower", 1, "headline"),
    "images": MetricInfo("images learnt from, repeats counted", "", "lower", 0),
    "parameters": MetricInfo("weights of the model", "weights", "lower", 0, "headline"),
}


@dataclasses.dataclass(frozen=True)
class ComparedRun:
    """One run or audited model.

    Args:
        name: short, and different from the others'.
        number: its place in the comparison, from 0.
        files: what lies in its folder.
    """

    name: str
    number: int
    files: RunFiles

    @property
    def letter(self) -> str:
        """Stands for it where a name is too long: A to Z, then numbers."""
        return chr(ord("A") + self.number) if self.number < 26 else str(self.number + 1)

    @property
    def kind(self) -> str:
        """CSS class of its colour; an eighth run looks like the first and is told apart by its letter."""
        return f"s{self.number % KINDS + 1}"

    @property
    def audits(self) -> dict[str, Document]:
        """The audit of each protocol that was run, mode `fixed` before others; ERS first."""
        found: dict[str, Document] = {}
        for name, document in self.files.current_audits.items():
            protocol = name.removeprefix("audit-").rpartition("-")[0] or "ers"
            found.setdefault(protocol, document)
        return dict(sorted(found.items(), key=lambda entry: entry[0] != "ers"))

    @property
    def measured(self) -> dict[str, Document]:
        """Where figures are, by source; the clean ones of a model that was only audited are those of an audit, of the
        ERS audit first, which searched the whole gallery."""
        whole = (audit for name, audit in self.audits.items() if name == "ers" or audit.get("mode") == "fixed")
        clean, worst = self.files.evaluation or next(whole, {}), worst_case(self.audits.values())
        return {**({"clean": clean} if clean else {}), **({"robust": worst[0]} if worst else {}), **self.audits}

    @property
    def flags(self) -> list[dict[str, str]]:
        """What its audits warn of, each warning once, the serious first."""
        return all_flags(self.files)


def read_runs(folders: Sequence[str | Path]) -> list[ComparedRun]:
    """Read every folder.

    Args:
        folders: run folders, or folders an audit was written to.
    """
    paths = [Path(folder) for folder in folders]
    named = zip(short_names(paths), paths, strict=True)
    return [ComparedRun(name, i, read_run(path)) for i, (name, path) in enumerate(named)]


def short_names(folders: Sequence[Path]) -> list[str]:
    """As few last parts of each path as tell it from the others; the same folder given twice is numbered."""
    parts = [folder.resolve().parts for folder in folders]
    names = []
    for own in parts:
        others = [other for other in parts if other != own]
        length = next((n for n in range(1, len(own)) if all(o[-n:] != own[-n:] for o in others)), len(own))
        names.append("/".join(own[-length:]))
    return [
        name if names.count(name) == 1 else f"{name} ({names[: i + 1].count(name)})" for i, name in enumerate(names)
    ]


def table_of(runs: Sequence[ComparedRun]) -> Table:
    """Every figure of every run that its metric wants compared, nothing marked; columns without any value left out."""
    columns: dict[str, Column] = {}
    rows: list[dict[str, TableCell]] = []
    for run in runs:
        cells: dict[str, TableCell] = {}
        for source, document in run.measured.items():
            doubtful = source != "clean" and bool(doubts(document))
            for key, info in _infos(run, source, document).items():
                if info.compared:
                    column = _column(source, key, info)
                    columns.setdefault(column.key, column)
                    cells[column.key] = _cell(document, key, info.scale, doubtful)
        files = run.files
        if (start := finite(block(files.evaluation, START).get(ON_TEST))) is not None:
            columns.setdefault("before", _column("clean", "before", BEFORE))
            cells["before"] = TableCell(start)
        costs = (files.training_seconds, files.passes_per_step, files.images_seen, files.parameters)
        cells |= {key: TableCell(finite(value)) for key, value in zip(COSTS, costs, strict=True)}
        rows.append(cells)
    columns |= {key: _column("cost", key, info) for key, info in COSTS.items()}
    others = sorted({c.source for c in columns.values()} - {*GROUPS})
    sources = [*[source for source in GROUPS if source != "cost"], *others, "cost"]
    first = ("R@1", "before")  # each beside the other
    ordered = sorted(columns.values(), key=lambda column: (sources.index(column.source), column.key not in first))
    filled = [
        dataclasses.replace(column, cells=tuple(cells.get(column.key, TableCell()) for cells in rows))
        for column in ordered
    ]
    return Table(tuple(run.name for run in runs), tuple(filled)).without_empty()


def _infos(run: ComparedRun, source: str, document: Document) -> dict[str, MetricInfo]:
    """The figures of a source that may be compared, with what they mean."""
    if source == "robust":
        known = block(document, "metrics")
        return {key: WORST if key == ROBUST else MOVED for key in known if of_ensemble(key)}
    if source == "clean" and document is not run.files.evaluation:
        return {"R@1": RECALL}
    return {key: info for key, info in described(document).items() if not of_ensemble(key)}


def _column(source: str, key: str, info: MetricInfo) -> Column:
    """A column; those of other audits are named after their protocol."""
    name = info.column or key
    return Column(
        key=name if source in GROUPS else f"{source} {name}",
        title=info.title or name,
        group=GROUPS.get(source, OTHER),
        source=source,
        meaning=info.meaning,
        better=info.better or "lower",
        digits=info.digits,
        headline=info.shown == "headline",
        ranked=info.better is not None,
    )


def _cell(document: Document, key: str, scale: float, doubted: bool) -> TableCell:
    """A figure with its interval, if both ends are known."""
    value = finite(block(document, "metrics").get(key))
    value = None if value is None else finite(scale * value)
    if value is None:
        return TableCell()
    ends = span(block(document, "intervals").get(key))
    sure = key == ROBUST and value == 0  # no attack could leave less
    return TableCell(value, None if ends is None else span([scale * end for end in ends]), doubted=doubted and not sure)
