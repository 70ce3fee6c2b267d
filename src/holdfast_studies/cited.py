"""The table that a paper is cited for: what it prints beside what was measured, as text and as a figure."""

from __future__ import annotations

import dataclasses
import re
import statistics
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from holdfast.gradients.drawing import STYLE
from holdfast_studies import base
from holdfast_studies.declared import paper
from holdfast_studies.drawing import INK, MARKERS, PALETTE, sheet
from holdfast_studies.jobs import Arm
from holdfast_studies.results import Results, spread
from holdfast_studies.setting import setting
from holdfast_studies.tables import Table

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

NOTHING = Results(outcomes={})
RATE = re.compile(r" @ [\d.]+$")
"""At the end of an arm's name: its learning rate, which may come to be another one."""
PRINTED = ", printed"
"""At the end of the heading of a column that is printed."""
LOOK: Any = {"color": INK, "marker": "D", "markerfacecolor": "white", "markersize": 6, "linestyle": ""}
"""Of printed figures."""
MEASURED = "measured"
"""What a column is called in a figure whose heading says no more than the printed one beside it."""


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
class CitedPanel:
    """A printed column and the measured ones that follow it.

    Args:
        title: of the panel.
        printed: row → figure.
        measured: what the column is called → row → its values, one per seed.
    """

    title: str
    printed: Mapping[str, float]
    measured: dict[str, Mapping[str, Sequence[float]]]


@dataclasses.dataclass(frozen=True, kw_only=True)
class CitedTable:
    """The table that a paper is cited for.

    Args:
        caption: what it shows.
        drawn: a study whose first figure stands below the table, too; empty for none.
        columns: heading → column.
        rows: name → what the paper prints, by key.
    """

    caption: str
    drawn: str
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

    def panels(self, results: Mapping[str, Results]) -> list[CitedPanel]:
        """What of it is drawn: measured columns with two rows or more that are printed, too.

        Args:
            results: study → what of it was run.
        """
        panels: list[CitedPanel] = []
        for heading, column in self.columns.items():
            if column.printed:
                known = {row: own[column.printed] for row, own in self.rows.items() if column.printed in own}
                panels.append(CitedPanel(title=heading.removesuffix(PRINTED), printed=known, measured={}))
            elif len(ran := {row: own for row in panels[-1].printed if (own := _values(column, row, results))}) > 1:
                panels[-1].measured[heading.removeprefix(panels[-1].title).lstrip(", ") or MEASURED] = ran
        return [panel for panel in panels if panel.measured]

    def ran(self, results: Mapping[str, Results]) -> bool:
        """Whether anything in it was measured."""
        return any(self._ran(column, results) for column in self.columns.values())

    def _cell(self, column: CitedColumn, row: str, printed: Mapping[str, float], results: Mapping[str, Results]) -> str:
        if column.printed:
            return f"{printed[column.printed]:.1f}" if column.printed in printed else ""
        return "" if column.measured(row) is None else spread(_values(column, row, results), column.figure)

    def _setting(self, column: CitedColumn, results: Mapping[str, Results]) -> str:
        return "; ".join(dict.fromkeys(setting(arm.job).short for arm in self._ran(column, results)))

    def _ran(self, column: CitedColumn, results: Mapping[str, Results]) -> list[Arm]:
        """The arms of a column of which anything was run."""
        ran = results.get(column.study, NOTHING).outcomes
        return [arm for row in self.rows if (arm := column.measured(row)) is not None and ran.get(arm.name)]


def _values(column: CitedColumn, row: str, results: Mapping[str, Results]) -> list[float]:
    """What was measured in a row, one value per seed."""
    arm = column.measured(row)
    return [] if arm is None else results.get(column.study, NOTHING).values(arm.name, column.figure)


def cited() -> dict[str, CitedTable]:
    """Letter of a paper → the table that it is cited for."""
    return {
        letter: CitedTable(
            caption=block["caption"],
            drawn=block.get("drawn", ""),
            columns={
                heading: CitedColumn(**{"study": block["study"], **own}) for heading, own in block["columns"].items()
            },
            rows=block["rows"],
        )
        for letter, block in paper("overview").items()
    }


def draw(panels: Sequence[CitedPanel]) -> Figure | None:
    """Printed figures as hollow diamonds, and measured ones beside them with their spread; None without any."""
    import matplotlib as mpl

    if not panels:
        return None
    rows = list(dict.fromkeys(row for panel in panels for row in panel.printed))
    names = list(dict.fromkeys(name for panel in panels for name in panel.measured))
    with mpl.rc_context(STYLE):
        figure, axes = sheet(1.2 + 0.3 * len(rows), 1, len(panels), sharey=True)
        for panel, place in zip(panels, axes, strict=True):
            _draw(panel, place, rows, names)
        drawn = {str(line.get_label()): line for place in axes for line in place.lines}
        handles = [drawn[name] for name in ("printed", *names)]
        figure.legend(handles, ["printed", *names], loc="outside lower center", ncols=4, frameon=False, fontsize=8)
    return figure


def _draw(panel: CitedPanel, axes: Axes, rows: Sequence[str], names: Sequence[str]) -> None:
    axes.plot([*panel.printed.values()], [rows.index(row) for row in panel.printed], **LOOK, label="printed")
    for number, (name, own) in enumerate(panel.measured.items()):
        look: Any = {"color": PALETTE[names.index(name)], "marker": MARKERS[names.index(name)]}
        axes.errorbar(
            [statistics.fmean(values) for values in own.values()],
            [rows.index(row) + 0.22 * (number - (len(panel.measured) - 1) / 2) for row in own],
            xerr=[statistics.stdev(values) if len(values) > 1 else 0.0 for values in own.values()],
            linestyle="",
            markersize=5,
            elinewidth=0.9,
            **look,
        )
        axes.plot([], [], linestyle="", markersize=5, label=name, **look)
    axes.set_title(panel.title)
    axes.set_yticks(range(len(rows)), rows)
    axes.set_ylim(len(rows) - 0.45, -0.55)
    axes.margins(x=0.12)
    axes.set_xlabel("%")
