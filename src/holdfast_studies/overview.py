"""The table that each paper is cited for, printed beside measured: all results on one page."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from holdfast.errors import plural
from holdfast.files import write_atomic
from holdfast_studies import base
from holdfast_studies.claims import Verdict
from holdfast_studies.declared import paper
from holdfast_studies.jobs import Arm
from holdfast_studies.judging import counted, shares
from holdfast_studies.page import PAPERS, Finished, all_verdicts, template
from holdfast_studies.results import Results, spread
from holdfast_studies.setting import setting
from holdfast_studies.tables import Table, duration, spent

NOTHING = Results(outcomes={})
RATE = re.compile(r" @ [\d.]+$")
"""At the end of an arm's name: its learning rate, which may come to be another one."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class CitedColumn:
    """A column of a paper's table: what is printed, or what was measured.

    Args:
        study: whose arms.
        printed: the key of what the paper prints, in each row; empty where the column was measured.
        arm: the name of an arm, with `{row}` for that of the row.
        figure: of the arm.
    """

    study: str
    printed: str = ""
    arm: str = ""
    figure: str = "R@1"

    def measured(self, row: str) -> Arm | None:
        """The arm of a row, if the study has it."""
        wanted = self.arm.replace("{row}", row)
        arms = base.get(self.study).arms("paper") if self.arm else []
        return next((arm for arm in arms if RATE.sub("", arm.name) == wanted), None)


@dataclasses.dataclass(frozen=True, kw_only=True)
class CitedTable:
    """The table that a paper is cited for.

    Args:
        caption: what it shows.
        drawn: studies, of which the first that has a figure shows it below the table.
        columns: heading → column.
        rows: name → what the paper prints, by key.
    """

    caption: str
    drawn: Sequence[str]
    columns: Mapping[str, CitedColumn]
    rows: Mapping[str, Mapping[str, float]]

    def table(self, results: Mapping[str, Results]) -> Table:
        """Printed and measured side by side, and below them whose setting the measured ones are of.

        Args:
            results: study → what of it was run.
        """
        rows = [
            [row, *(self._cell(column, row, printed, results) for column in self.columns.values())]
            for row, printed in self.rows.items()
        ]
        return ["", *self.columns], [*rows, ["setting", *(self._setting(c, results) for c in self.columns.values())]]

    def ran(self, results: Mapping[str, Results]) -> bool:
        """Whether anything in it was measured."""
        return any(self._ran(column, results) for column in self.columns.values())

    def _cell(self, column: CitedColumn, row: str, printed: Mapping[str, float], results: Mapping[str, Results]) -> str:
        if column.printed:
            return f"{printed[column.printed]:.1f}" if column.printed in printed else ""
        arm = column.measured(row)
        if arm is None:
            return ""
        return spread(results.get(column.study, NOTHING).values(arm.name, column.figure), column.figure)

    def _setting(self, column: CitedColumn, results: Mapping[str, Results]) -> str:
        return "; ".join(dict.fromkeys(setting(arm.job).short for arm in self._ran(column, results)))

    def _ran(self, column: CitedColumn, results: Mapping[str, Results]) -> list[Arm]:
        """The arms of a column of which anything was run."""
        ran = results.get(column.study, NOTHING).outcomes
        return [arm for row in self.rows if (arm := column.measured(row)) is not None and ran.get(arm.name)]


def cited() -> dict[str, CitedTable]:
    """Letter of a paper → the table that it is cited for."""
    return {
        letter: CitedTable(
            caption=block["caption"],
            drawn=[
                block.get("drawn", block["study"]),
                *(own["study"] for own in block["columns"].values() if "study" in own),
            ],
            columns={
                heading: CitedColumn(**{"study": block["study"], **own}) for heading, own in block["columns"].items()
            },
            rows=block["rows"],
        )
        for letter, block in paper("overview").items()
    }


def write_overview(results: Path, found: Sequence[Finished]) -> None:
    """Write `README.md` into a folder of results.

    Args:
        results: the folder; pages, figures and readings lie there.
        found: studies at paper scale of which something was run.
    """
    judged = all_verdicts("paper", found)
    every = [cell for one in found for cell in one.ran]
    gpu = [(job, outcome) for job, outcome in every if outcome.device != "CPU"]
    text = template("overview.md").render(
        counted=counted([verdict for own in judged.values() for verdict in own]),
        cells=plural(spent(every, every).cells, "cell"),
        time=duration(spent(gpu, every).seconds),
        reading=_reading(results, "overview"),
        papers=list(_papers(found, judged, results)),
    )
    write_atomic(results / "README.md", re.sub(r"\n{3,}", "\n\n", text).strip() + "\n")


def _papers(
    found: Sequence[Finished], judged: Mapping[str, Sequence[Verdict]], results: Path
) -> Iterator[dict[str, Any]]:
    """What the page says of each paper."""
    ran = {one.study.id: one.results for one in found}
    for letter, own in cited().items():
        drawn = [(base.get(name).figures("paper")[0].title, f"figures/paper/{name}-1.png") for name in own.drawn]
        yield {
            "heading": PAPERS[letter],
            "caption": own.caption,
            "table": own.table(ran) if own.ran(ran) else None,
            "shares": shares([verdict for name in judged if name[0] == letter for verdict in judged[name]]),
            "figure": next((one for one in drawn if (results / one[1]).is_file()), None),
            "reading": _reading(results, f"overview-{letter}"),
            "studies": [one.study.id for one in found if one.letter == letter],
        }


def _reading(results: Path, name: str) -> str:
    """What is said by hand; nothing where nothing is."""
    file = results / "reading" / f"{name}.md"
    return file.read_text("utf-8").strip() if file.is_file() else ""
