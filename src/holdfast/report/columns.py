"""The columns of a comparison, and where each finds its value in a run's files."""

from __future__ import annotations

from collections.abc import Sequence

from holdfast.report.formatting import span
from holdfast.report.runs import ComparedRun, Document
from holdfast.report.sections.recipe import block
from holdfast.report.tables import Cell, Column, Row, Table
from holdfast.run_files import finite

CLEAN, ROBUST, OTHER, COST = "Clean retrieval", "Under attack", "Other audits", "Cost"

CLEAN_COLUMNS = (
    Column("R@1", "R@1", CLEAN, "clean", "queries whose nearest image is of their class, %", headline=True),
    Column("R@2", "R@2", CLEAN, "clean", "queries with their class among the two nearest, %"),
    Column("R@4", "R@4", CLEAN, "clean", "queries with their class among the four nearest, %"),
    Column("R@8", "R@8", CLEAN, "clean", "queries with their class among the eight nearest, %"),
    Column("R@10", "R@10", CLEAN, "clean", "queries with their class among the ten nearest, %"),
    Column("mAP@R", "mAP@R", CLEAN, "clean", "how well the whole class is ranked first, %", headline=True),
    Column("NMI", "NMI", CLEAN, "clean", "how well clusters match classes, %", headline=True),
)
ERS_COLUMNS = (
    Column("ERS", "ERS", ROBUST, "ers", "mean of the ten attacks, 0 is defenceless; read beside R@1", headline=True),
    Column("CA+", "CA+", ROBUST, "ers", "rank of an image pushed up another's list: 50 is chance, 0 the top"),
    Column("CA-", "CA-", ROBUST, "ers", "rank of an image pushed down a list: 0 is unmoved", "lower"),
    Column("QA+", "QA+", ROBUST, "ers", "rank of a chosen image in a changed query's list: 50 is chance"),
    Column("QA-", "QA-", ROBUST, "ers", "rank of a near image pushed out by a changed query: 0 is unmoved", "lower"),
    Column("TMA", "TMA", ROBUST, "ers", "cosine of a changed query and a chosen image", "lower", 3),
    Column("ES:D", "ES:D", ROBUST, "ers", "how far a changed query moves, 0 to 2", "lower", 3),
    Column("ES:R", "ES:R", ROBUST, "ers", "R@1 after it moved, %"),
    Column("LTM", "LTM", ROBUST, "ers", "R@1 when other classes are pulled near, %"),
    Column("GTM", "GTM", ROBUST, "ers", "R@1 when the nearest wrong image is pulled near, %"),
    Column("GTT", "GTT", ROBUST, "ers", "queries that keep their best match in the top four, %"),
)
OTHER_COLUMNS = (
    Column("adml triplet/R@1", "ADML triplet", OTHER, "adml", "R@1 after the triplet attack, %"),
    Column("adml alignment/R@1", "ADML align.", OTHER, "adml", "R@1 after the alignment attack, %"),
    Column("adml uniformity/R@1", "ADML unif.", OTHER, "adml", "R@1 after the uniformity attack, %"),
    Column("stax stax/R@1", "STAX", OTHER, "stax", "R@1 of single-target inputs, %"),
    Column("stax stax/R@4", "STAX R@4", OTHER, "stax", "R@4 of single-target inputs, %"),
    Column("stax stax/NMI", "STAX NMI", OTHER, "stax", "how well clusters of single-target inputs match classes, %"),
    Column("stax mtax/R@1", "MTAX", OTHER, "stax", "R@1 of multi-target inputs, %"),
    Column("stax stax-large/R@1", "STAX ×10", OTHER, "stax", "R@1 of single-target inputs, ten times the radius, %"),
    Column("thorough R@1", "worst case", OTHER, "thorough", "R@1 when the best of many attacks counts, %"),
    Column(
        "thorough breaking_eps", "breaks at", OTHER, "thorough", "median change per pixel that breaks a query, /255"
    ),
)
# Runs do not record their machine, so seconds rank nobody.
COST_COLUMNS = (
    Column(
        "seconds", "train s", COST, "cost", "seconds in training steps, on the machine used", "lower", 0, True, False
    ),
    Column("passes", "passes", COST, "cost", "runs of the model, forward and back, per step", "lower", 1, True),
    Column("images", "images", COST, "cost", "images learnt from, repeats counted", "lower", 0),
    Column("parameters", "weights", COST, "cost", "weights of the model", "lower", 0, True),
)


def measured(runs: Sequence[ComparedRun]) -> Table:
    """Every figure of every run, nothing marked; columns that no run has are left out."""
    columns = (*CLEAN_COLUMNS, *ERS_COLUMNS, *OTHER_COLUMNS, *COST_COLUMNS)
    rows = [
        Row(run.name, (*_clean(run), *_attacked(run, ERS_COLUMNS), *_attacked(run, OTHER_COLUMNS), *_cost(run)))
        for run in runs
    ]
    return Table(columns, tuple(rows)).without_empty()


def clean_document(run: ComparedRun) -> Document:
    """Where the clean figures are: the evaluation, or for a model that was only audited, its ERS audit."""
    return run.files.evaluation or run.audits.get("ers", {})


def _clean(run: ComparedRun) -> list[Cell]:
    document = clean_document(run)
    return [_cell(document, column.key) for column in CLEAN_COLUMNS]


def _attacked(run: ComparedRun, columns: Sequence[Column]) -> list[Cell]:
    cells = []
    for column in columns:
        audit = run.audits.get(column.source, {})
        key = column.key.removeprefix(f"{column.source} ")
        if column.key == "thorough R@1":
            key = f"eps={255 * (finite(block(audit, 'budget').get('eps_pixel')) or 0):g}/255 R@1"
        cell = _cell(audit, key)
        cells.append(_times(255, cell) if key == "breaking_eps" else cell)
    return cells


def _cost(run: ComparedRun) -> list[Cell]:
    files = run.files
    values = (files.training_seconds, files.passes_per_step, files.images_seen, files.parameters)
    return [Cell(None if value is None else float(value)) for value in values]


def _cell(document: Document, key: str) -> Cell:
    """A figure with its interval, if both ends are known."""
    value = finite(block(document, "metrics").get(key))
    return Cell(value, None if value is None else span(block(document, "intervals").get(key)))


def _times(factor: float, cell: Cell) -> Cell:
    value = None if cell.value is None else finite(factor * cell.value)
    return Cell(value, None if value is None or cell.interval is None else span([factor * v for v in cell.interval]))
