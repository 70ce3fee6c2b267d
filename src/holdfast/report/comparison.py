"""Several runs beside each other: what is compared, and what is not."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from holdfast.errors import HoldfastError
from holdfast.report.fairness import Unfair, seed_summary, unfair
from holdfast.report.public import audit_command, command
from holdfast.report.runs import ComparedRun, read_runs, table_of
from holdfast.report.tables import Table


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
class Comparison:
    """Runs with their figures.

    Args:
        runs: in the order given.
        table: a row per run, the best of every fairly measured column marked.
        seeds: a row per recipe that was run with several seeds, if there is one.
        unfair: measurements that were not made alike.
        missing: what runs lack, and what adds it.
    """

    runs: list[ComparedRun]
    table: Table
    seeds: Table | None
    unfair: list[Unfair]
    missing: list[MissingResult]

    def plain(self) -> dict[str, Any]:
        """As `--json` prints it."""
        return {
            "schema": 1,
            "runs": [{"name": run.name, "folder": str(run.files.folder), "flags": run.flags} for run in self.runs],
            "table": self.table.plain(),
            "seeds": None if self.seeds is None else self.seeds.plain(),
            "unfair": [dataclasses.asdict(entry) for entry in self.unfair],
            "missing": [{"why": entry.why, "command": entry.command} for entry in self.missing],
        }


def read_comparison(folders: Sequence[str | Path]) -> Comparison:
    """Read the runs and rank them where that is fair.

    Args:
        folders: run folders, or folders an audit was written to.
    """
    if not folders:
        raise HoldfastError("nothing to compare; give one or more run folders")
    runs = read_runs(folders)
    different = unfair(runs)
    refused = {entry.source for entry in different}
    table = table_of(runs)
    seeds = seed_summary(runs, table)
    return Comparison(
        runs,
        table.marked(refused),
        None if seeds is None else seeds.marked(refused),
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
    if "ers" not in run.audits:
        own = command("holdfast", "audit", run.files.folder, "--data", run.files.data_spec)
        lines.append(MissingResult(f"{run.name} has no ERS yet", own, audit_command(run.files)))
    return lines
