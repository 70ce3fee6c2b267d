"""Figures of studies: plain descriptions, and how they are drawn. One calm style, arms that were not run left out."""

from __future__ import annotations

import dataclasses
import io
import statistics
import textwrap
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from holdfast.files import write_atomic
from holdfast.gradients.drawing import STYLE
from holdfast_studies.results import Results, spread

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

PALETTE = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#555555", "#B8A800")
"""Colours that stay apart under every common colour blindness (after Okabe and Ito)."""

MARKERS = ("o", "s", "^", "D", "v", "P", "X", "<")
RULE, INK = "#E6E6E6", "#444444"
WIDTH, DPI, COLOURS = 7.2, 120, 96
MOST = 4
"""Panels in a row."""
LETTERS = 84
"""Of the titles of panels side by side."""
REACH = 1.5
"""Lengths of a frontier, along each axis, within which other points are shown."""


@dataclasses.dataclass(frozen=True)
class Bars:
    """One bar per arm and figure, with the spread over seeds.

    Args:
        title: above it.
        arms: which, in order.
        figures: legend → figure.
        unit: of the axis.
    """

    title: str
    arms: tuple[str, ...]
    figures: Mapping[str, str]
    unit: str = "%"

    @property
    def shown(self) -> tuple[str, ...]:
        """Figures that it shows."""
        return tuple(self.figures.values())


@dataclasses.dataclass(frozen=True)
class Lines:
    """A figure against a number that arms differ in.

    Args:
        title: above it.
        lines: legend → {x: arm}.
        figure: the y axis.
        x: name of the x axis.
        logarithmic: the x axis.
        unit: of the y axis.
    """

    title: str
    lines: Mapping[str, Mapping[float, str]]
    figure: str = "R@1"
    x: str = ""
    logarithmic: bool = False
    unit: str = "%"

    @property
    def shown(self) -> tuple[str, ...]:
        """Figures that it shows."""
        return (self.figure,)


@dataclasses.dataclass(frozen=True)
class Scatter:
    """One point per arm, one figure against another.

    Args:
        title: above it.
        arms: which.
        x: figure of the x axis.
        y: figure of the y axis.
        frontier: name only the arms that no other beats in both figures, and join them; for many arms.
    """

    title: str
    arms: tuple[str, ...]
    x: str
    y: str
    frontier: bool = False

    @property
    def shown(self) -> tuple[str, ...]:
        """Figures that it shows."""
        return self.x, self.y


@dataclasses.dataclass(frozen=True)
class Curves:
    """A series per arm: lists `[[x, y], ...]` that a probe stored under one name.

    Args:
        title: above it.
        arms: which.
        series: the name.
        x: name of the x axis.
        y: name of the y axis.
        points: draw dots instead of lines.
    """

    title: str
    arms: tuple[str, ...]
    series: str
    x: str
    y: str
    points: bool = False


Drawing: TypeAlias = Bars | Lines | Scatter | Curves


def described(block: Mapping[str, Any], arms: tuple[str, ...], columns: Mapping[str, str]) -> Drawing:
    """A drawing from plain data.

    Args:
        block: `name` is `bars`, `lines`, `scatter` or `curves`, the rest are its arguments.
        arms: of the study, which it shows where it names none.
        columns: of the study's table, which bars show where they name no figures.
    """
    kinds: dict[str, Callable[..., Drawing]] = {"bars": Bars, "lines": Lines, "scatter": Scatter, "curves": Curves}
    defaults = {"bars": {"arms": arms, "figures": columns}, "lines": {}}.get(block["name"], {"arms": arms})
    given = {key: tuple(value) if key == "arms" else value for key, value in block.items() if key != "name"}
    return kinds[block["name"]](**{**defaults, **given})


def draw(drawing: Drawing, results: Results, names: Mapping[str, str]) -> Figure | None:
    """The figure; None where nothing that it shows was run."""
    import matplotlib as mpl

    kinds: dict[type, Callable[..., Figure | None]] = {Bars: _bars, Lines: _lines, Scatter: _scatter, Curves: _curves}
    with mpl.rc_context(STYLE):
        figure = kinds[type(drawing)](drawing, results, names)
        if figure is not None:
            figure.suptitle(drawing.title, fontsize=10.5, fontweight="bold", x=0.01, ha="left")
        return figure


def write(figure: Figure, file: Path) -> None:
    """A small PNG, the same bytes every time."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from PIL import Image

    canvas: Any = FigureCanvasAgg(figure)
    packed = io.BytesIO()
    canvas.draw()
    drawn = Image.frombuffer("RGBA", canvas.get_width_height(), canvas.buffer_rgba(), "raw", "RGBA", 0, 1)
    # Colours far apart, however rare, since a legend alone may have one; moved to what most pixels near them have.
    few = drawn.convert("RGB").quantize(COLOURS, Image.Quantize.MAXCOVERAGE, kmeans=1, dither=Image.Dither.NONE)
    few.save(packed, "PNG", optimize=True)
    file.parent.mkdir(parents=True, exist_ok=True)
    write_atomic(file, packed.getvalue())


def sheet(height: float, rows: int = 1, columns: int = 1, **options: Any) -> tuple[Figure, list[Axes]]:
    """An empty figure of the usual width, and its panels, row by row."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(WIDTH, height), dpi=DPI, layout="constrained", facecolor="white")
    grid = figure.subplots(rows, columns, squeeze=False, **options)
    for axes in grid.flat:
        axes.grid(color=RULE, linewidth=0.7)
        axes.set_axisbelow(True)
    return figure, list(grid.flat)


def _bars(drawing: Bars, results: Results, names: Mapping[str, str]) -> Figure | None:
    """Lying bars, so that names of arms can be read; a dot per seed."""
    arms = [arm for arm in drawing.arms if any(results.values(arm, figure) for figure in drawing.figures.values())]
    if not arms:
        return None
    count = len(drawing.figures)
    thick = 0.8 / count
    figure, (axes,) = sheet(0.9 + len(arms) * max(0.3, 0.2 * count) + 0.18 * (count > 1))
    farthest = 0.0
    for place, (legend, key) in enumerate(drawing.figures.items()):
        colour = PALETTE[place % len(PALETTE)]
        for row, arm in enumerate(arms):
            values = results.values(arm, key)
            if not values:
                continue
            y = row + (place - (count - 1) / 2) * thick
            axes.barh(y, statistics.fmean(values), 0.88 * thick, color=colour, alpha=0.85)
            if len(values) > 1:
                axes.plot(values, [y] * len(values), ".", color=INK, markersize=3)
            end = max(0.0, *values)
            axes.annotate(
                spread(values, key), (end, y), (5, 0), textcoords="offset points", va="center", fontsize=7.5, color=INK
            )
            farthest = max(farthest, end)
        axes.barh([0], [0], color=colour, alpha=0.85, label=legend)
    axes.set_yticks(range(len(arms)), arms)
    axes.set_ylim(len(arms) - 0.45, -0.55)
    axes.grid(visible=False, axis="y")
    axes.set_xlim(right=farthest + 0.17 * (farthest - min(0.0, axes.get_xlim()[0])) or None)
    only = next(iter(drawing.figures))
    axes.set_xlabel(drawing.unit if count > 1 else f"{only}, {drawing.unit}" if drawing.unit else only)
    if count > 1:
        figure.legend(frameon=False, loc="outside lower center", ncols=min(count, 4), fontsize=8)
    return figure


def _lines(drawing: Lines, results: Results, names: Mapping[str, str]) -> Figure | None:
    figure, (axes,) = sheet(3.4)
    ticks: set[float] = set()
    for place, (legend, arms) in enumerate(drawing.lines.items()):
        known = [(x, values) for x, arm in sorted(arms.items()) if (values := results.values(arm, drawing.figure))]
        if not known:
            continue
        ticks |= {x for x, _ in known}
        axes.errorbar(
            [x for x, _ in known],
            [statistics.fmean(values) for _, values in known],
            yerr=[statistics.stdev(values) if len(values) > 1 else 0.0 for _, values in known],
            label=legend,
            color=PALETTE[place % len(PALETTE)],
            marker=MARKERS[place % len(MARKERS)],
            markersize=5,
            linewidth=1.6,
            elinewidth=0.9,
            capsize=2.5,
        )
    if not ticks:
        return None
    if drawing.logarithmic:
        axes.set_xscale(
            "log" if min(ticks) > 0 else "symlog", **({} if min(ticks) > 0 else {"linthresh": _least(ticks)})
        )
    if len(ticks) <= 9:
        axes.set_xticks(sorted(ticks), [f"{x:g}" for x in sorted(ticks)])
        axes.minorticks_off()
    name = names.get(drawing.figure, drawing.figure)
    axes.set(xlabel=drawing.x, ylabel=f"{name}, {drawing.unit}" if drawing.unit else name)
    _legend(axes)
    return figure


def _scatter(drawing: Scatter, results: Results, names: Mapping[str, str]) -> Figure | None:
    figure, (axes,) = sheet(3.7)
    known = {arm: both for arm in drawing.arms if (both := _pairs(results, arm, drawing))}
    if not known:
        return None
    axes.set(xlabel=names.get(drawing.x, drawing.x), ylabel=names.get(drawing.y, drawing.y))
    if drawing.frontier:
        _frontier(figure, axes, {arm: _mean(both) for arm, both in known.items()})
        return figure
    for place, (arm, both) in enumerate(known.items()):
        marker = MARKERS[(place + place // len(PALETTE)) % len(MARKERS)]
        look: Any = {"color": PALETTE[place % len(PALETTE)], "marker": marker, "linestyle": ""}
        xs, ys = _coordinates(both)
        axes.plot(xs, ys, **look, markersize=4, alpha=0.35)
        axes.plot(*[[value] for value in _mean(both)], **look, markersize=8, label=arm, markeredgecolor="white")
    _legend(axes, always=True)
    return figure


def _frontier(figure: Figure, axes: Axes, points: Mapping[str, tuple[float, float]]) -> None:
    """A line through the points that no other beats in both figures, numbered and named, and those nearby."""
    best = sorted(undominated(points), key=lambda arm: points[arm])
    others = [point for arm, point in points.items() if arm not in best]
    line = [points[arm] for arm in best]
    axes.plot(*_coordinates(line), color=PALETTE[0], linewidth=1)
    for number, arm in enumerate(best, 1):
        axes.plot(
            *[[value] for value in points[arm]], color=PALETTE[0], marker="o", linestyle="", label=f"{number}  {arm}"
        )
        axes.annotate(str(number), points[arm], xytext=(5, 4), textcoords="offset points", fontsize=8)
    starts = [_start(*values) for values in zip(_coordinates(line), _coordinates([*points.values()]), strict=True)]
    near = [point for point in others if all(value >= start for value, start in zip(point, starts, strict=True))]
    if near:
        axes.plot(*_coordinates(near), color=INK, alpha=0.35, marker="o", linestyle="", markersize=5, label="others")
    if far := len(others) - len(near):
        axes.plot([], [], linestyle="", label=f"({far} more {'lies' if far == 1 else 'lie'} far below)")
    axes.margins(0.12)
    named = axes.legend(frameon=False, loc="upper left", bbox_to_anchor=(0, -0.17), fontsize=8, borderaxespad=0)
    figure.set_figheight(3.4 + 0.18 * len(named.get_texts()))


def _start(line: Sequence[float], values: Sequence[float]) -> float:
    """Where an axis may begin: most points are shown, and all that are not far from a line."""
    return min(min(line) - REACH * (max(line) - min(line)), sorted(values)[len(values) // 10])


def undominated(points: Mapping[str, tuple[float, float]]) -> list[str]:
    """The arms that no other beats in one figure without losing in the other."""
    return [
        arm
        for arm, (x, y) in points.items()
        if not any(u >= x and v >= y and (u, v) != (x, y) for u, v in points.values())
    ]


def _mean(points: Sequence[Sequence[float]]) -> tuple[float, float]:
    xs, ys = _coordinates(points)
    return statistics.fmean(xs), statistics.fmean(ys)


def _pairs(results: Results, arm: str, drawing: Scatter) -> list[tuple[float, float]]:
    """Points of the seeds that have both figures."""
    xs, ys = results.by_seed(arm, drawing.x), results.by_seed(arm, drawing.y)
    return [(xs[seed], ys[seed]) for seed in sorted(xs.keys() & ys.keys())]


def _curves(drawing: Curves, results: Results, names: Mapping[str, str]) -> Figure | None:
    """Lines share one panel; clouds of points would hide each other and get one each."""
    known = [(arm, found) for arm in drawing.arms if (found := results.series(arm, drawing.series))]
    if not known:
        return None
    if not drawing.points:
        figure, (axes,) = sheet(3.4)
        for place, (arm, found) in enumerate(known):
            style: Any = "-" if place < len(PALETTE) else (0, (4, 2))
            marker = "o" if len(found) <= 12 else None
            xs, ys = _coordinates(found)
            colour = PALETTE[place % len(PALETTE)]
            axes.plot(xs, ys, label=arm, color=colour, linewidth=1.6, linestyle=style, marker=marker, markersize=3.5)
        axes.set(xlabel=drawing.x, ylabel=drawing.y)
        _legend(axes, length=3.4 if len(known) > len(PALETTE) else None)
        return figure
    columns = min(MOST, len(known))
    rows = -(-len(known) // columns)
    figure, panels = sheet(0.6 + rows * (WIDTH / max(columns, 2)), rows, columns, sharex=True, sharey=True)
    kinds = sorted({kind for _, found in known for kind in _kinds(found)}, key=lambda kind: (kind is None, kind))
    for axes, (arm, found) in zip(panels, known, strict=False):
        for kind, points in _kinds(found).items():
            colour = PALETTE[kinds.index(kind) % len(PALETTE)]
            label = None if kind is None else f"{kind:g}"
            axes.plot(*_coordinates(points), ".", color=colour, label=label, markersize=3, alpha=0.5, markeredgewidth=0)
        axes.set_title(textwrap.fill(arm, LETTERS // columns), fontsize=8.5, fontweight="normal")
    for axes in panels[len(known) - columns : len(known)]:  # the lowest of their columns
        axes.tick_params(labelbottom=True)
    for axes in panels[len(known) :]:
        axes.set_axis_off()
    figure.supxlabel(drawing.x, fontsize=9)
    figure.supylabel(drawing.y, fontsize=9)
    shown = [f"{kind:g}" for kind in kinds if kind is not None]
    if shown:
        drawn = {str(line.get_label()): line for axes in panels for line in axes.lines}
        handles = [drawn[name] for name in shown]
        named = figure.legend(handles, shown, loc="outside right upper", frameon=False, fontsize=8, markerscale=3)
        for handle in filter(None, named.legend_handles):
            handle.set_alpha(1)  # the colour that points have where they are many
    return figure


def _legend(axes: Axes, always: bool = False, length: float | None = None) -> None:
    """Beside the axes, where it hides nothing; dashes need a longer line than usual to be told."""
    if always or len(axes.get_legend_handles_labels()[1]) > 1:
        place: Any = {"loc": "center left", "bbox_to_anchor": (1.01, 0.5), "borderaxespad": 0.2}
        axes.legend(frameon=False, fontsize=8, handlelength=length, **place)


def _kinds(found: Sequence[Sequence[float]]) -> dict[float | None, list[Sequence[float]]]:
    """Points by their third number, which says what they are of; those without one together."""
    kinds: dict[float | None, list[Sequence[float]]] = {}
    for point in found:
        kinds.setdefault(point[2] if len(point) > 2 else None, []).append(point)
    return kinds


def _coordinates(found: Sequence[Sequence[float]]) -> tuple[list[float], list[float]]:
    return [point[0] for point in found], [point[1] for point in found]


def _least(ticks: set[float]) -> float:
    """The smallest x but zero, where a logarithmic axis that holds zero turns straight."""
    return min((abs(x) for x in ticks if x), default=1.0)
