"""How much work a cell is: what is left of it, before it has run and after."""

from __future__ import annotations

from collections.abc import Mapping

from holdfast.run_files import finite, log_lines, passed_images
from holdfast.training.folder import TrainingFolder
from holdfast_studies.ceilings import Network, network
from holdfast_studies.jobs import AuditMeasure, Cell, Training, taken, unplaced
from holdfast_studies.store import Store

IMAGES = {"glyphs": 2_800, "digits": 900, "mnist": 30_000, "omniglot": 16_000, "cars": 8_100}
IMAGES |= {"sop": 59_600, "inshop": 25_900}
"""Roughly, of the classes that are learnt, and as many that are attacked."""
OTHER = 5_900
"""Of other data, such as CUB."""

PASSES = {"adml": 60, "stax": 60, "natural": 30, "thorough": 1_500}
"""Roughly, of an audit for each image."""
ERS = 500
"""Of other protocols."""


def expected_seconds(cell: Cell, store: Store, ceilings: Mapping[Network, float]) -> float:
    """Roughly how long the rest of a cell takes at the ceiling of its network; 0 where nothing is known."""
    if not isinstance(cell.job, Training):
        return 0.0
    recipe = cell.job.resolved(cell.seed)
    images = IMAGES.get(unplaced(cell.job.data)["name"], OTHER)
    learning = 0 if store.trained(cell.job, cell.seed) else recipe.epochs * images * recipe.regime.build().passes
    missing = store.missing(cell)
    audits = [m for m in (cell.job.measures if missing is None else missing) if isinstance(m, AuditMeasure)]
    attacking = sum(PASSES.get(audit.protocol, ERS) * min(audit.limit or images, images) for audit in audits)
    return (learning + attacking) / ceiling_of(cell, ceilings)


def ceiling_of(cell: Cell, ceilings: Mapping[Network, float]) -> float:
    """Of a cell's network; a usual one where it was not measured."""
    known = network(cell)
    rates = sorted(ceilings.values())
    rate = None if known is None else ceilings.get(known)
    return rate or (rates[len(rates) // 2] if rates else 1.0)


def begun(cell: Cell, store: Store) -> bool:
    """Whether something of it is done: it should be finished before others are begun."""
    if store.missing(cell) is not None:
        return True
    if not isinstance(cell.job, Training):
        return False
    run = TrainingFolder(store.run(cell.job, cell.seed))
    return run.checkpoints.is_dir() or run.first.is_dir()


def work_done(cell: Cell, store: Store) -> float:
    """Images that went forward and back for a cell so far, in training and in audits that are finished."""
    if not isinstance(cell.job, Training):
        return 0.0
    record = store.read(cell)
    passed = [finite((taken(record, m) or {}).get("passed")) or 0.0 for m in cell.job.measures]
    return passed_images(training_log(cell, store)) + sum(passed)


def training_log(cell: Cell, store: Store) -> list[dict[str, object]]:
    """The lines of its training so far."""
    if not isinstance(cell.job, Training):
        return []
    try:
        return log_lines((store.run(cell.job, cell.seed) / "metrics.jsonl").read_text("utf-8", "replace"))
    except OSError:
        return []
