"""Pictures of what the benchmarks wrote: every JSON file that is there, a PNG beside it.

    python benchmarks/plots.py docs/benchmarks

A file that is missing is left out and said so.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import NullFormatter, NullLocator

from holdfast.gradients.drawing import BLUE, DASHED, GREY, ORANGE, STYLE

GREEN, PALE, INK, RULE = "#009E73", "#C9CED3", "#333333", "#E9E9E9"
PANELS = (("queries",), ("gallery", "qa"), ("batch",), ("eta",), ("sets",))
"""Curves of `growth.py`; those that share a panel have the same x."""

NARROW = 0.15
"""A bar that its own figure does not fit into."""

GPU_ROWS = {
    "standard": "standard step",
    "adml": "ADML step",
    "act": "ACT step, η 8",
    "hm": "HM step, η 8",
    "mdprop": "MDProp step",
    "ers": "ERS, 5,924 images",
}
CONTENDERS = {
    "recall": ("holdfast, R@1 alone", "#56B4E9"),
    "faiss-recall": ("FAISS, R@1 alone", "#E69F00"),
    "ours": ("holdfast, all metrics", BLUE),
    "faiss": ("FAISS, all but mAP", ORANGE),
    "full-sort": ("full sort, all metrics", GREEN),
}


def sheet(width: float, height: float, note: str) -> Figure:
    """An empty figure with a line on where its numbers come from."""
    figure = Figure(figsize=(width, height), layout="constrained", facecolor="white")
    figure.suptitle(note, fontsize=8, color="#666666", x=0.008, ha="left")
    return figure


def growth(content: dict[str, Any]) -> Figure:
    """Small multiples, time above memory."""
    panels = [[name for name in names if name in content["curves"]] for names in PANELS]
    panels = [names for names in panels if names]
    note = f"{content['hardware']}; {content['backbone']} at {content['size']} px, median of {content['repeats']}"
    figure = sheet(2.45 * len(panels), 4.9, note)
    grid = figure.subplots(2, len(panels), squeeze=False, sharex="col", sharey="row")
    for column, names in zip(grid.T, panels, strict=True):
        for place, (name, colour) in enumerate(zip(names, (BLUE, ORANGE), strict=False)):
            rows = [row for row in content["rows"] if row["curve"] == name]
            fitted = next(fitted for fitted in content["fits"] if fitted["curve"] == name)
            trace(column[0], rows, "seconds", fitted["time_slope"], colour, place)
            if "memory_slope" in fitted:
                trace(column[1], rows, "mib", fitted["memory_slope"], colour, place)
            above = 1.04 + 0.09 * (len(names) - 1 - place)
            title = content["curves"][name]["title"]
            column[0].text(0, above, title, color=colour, weight="bold", transform=column[0].transAxes)
        column[1].set_xlabel(content["curves"][names[0]]["along"])
        marks = [row["x"] for row in content["rows"] if row["curve"] == names[0]]
        column[1].set_xticks(marks[:: max(1, len(marks) // 3)], [short(x) for x in marks[:: max(1, len(marks) // 3)]])
        column[1].xaxis.set_minor_locator(NullLocator())
    for axes, label in zip(grid[:, 0], ("seconds", "MiB"), strict=True):
        axes.set_ylabel(label)
        axes.yaxis.set_major_formatter(lambda value, _: f"{value:g}")
        axes.yaxis.set_minor_formatter(NullFormatter())
    return figure


def trace(axes: Axes, rows: list[dict[str, Any]], key: str, slope: float, colour: str, place: int) -> None:
    """One curve, and the slope of the straight line through it."""
    axes.loglog([row["x"] for row in rows], [row[key] for row in rows], "o-", color=colour, markersize=4, linewidth=1.6)
    axes.text(0.97, 0.05 + 0.1 * place, f"slope {slope:.2f}", color=colour, ha="right", transform=axes.transAxes)
    axes.grid(color=RULE, linewidth=0.6)
    axes.set_axisbelow(True)


def short(count: int) -> str:
    """16,384 as 16k."""
    for unit, name in ((2**20, "M"), (2**10, "k")):
        if count >= unit:
            return f"{count / unit:g}{name}"
    return str(count)


def losses(content: dict[str, Any]) -> Figure:
    """A dot per batch: how many times longer pytorch-metric-learning takes."""
    rows = [row for row in content["rows"] if row["ratio"] is not None]
    dims = sorted({row["dim"] for row in rows}, reverse=True)
    names = list(dict.fromkeys((row["kind"], row["name"]) for row in rows))[::-1]
    batches = sorted({row["batch"] for row in rows})
    shades = mpl.colormaps["cividis_r"].resampled(len(batches) + 1)
    figure = sheet(5.2 * len(dims), 0.29 * len(names) + 1.3, content["hardware"])
    grid = figure.subplots(1, len(dims), squeeze=False, sharey=True, sharex=True)[0]
    for axes, dim in zip(grid, dims, strict=True):
        axes.axvline(1, color=GREY, linewidth=1, zorder=0)
        axes.axvline(3, color=GREY, linewidth=1, zorder=0, linestyle=DASHED)
        for place, batch in enumerate(batches):
            mine = [row for row in rows if (row["dim"], row["batch"]) == (dim, batch)]
            x, y = [row["ratio"] for row in mine], [names.index((row["kind"], row["name"])) for row in mine]
            axes.scatter(x, y, s=38, color=shades(place + 1), edgecolor="white", linewidth=0.6, label=f"{batch:,}")
        axes.set(xscale="log", title=f"{dim} dims", xlabel="time of pytorch-metric-learning over ours")
        axes.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
        axes.grid(axis="y", color=RULE, linewidth=0.8)
        axes.set_axisbelow(True)
    grid[0].set_yticks(range(len(names)), [name if kind == "loss" else f"{name} (miner)" for kind, name in names])
    grid[-1].legend(title="batch", frameon=False, loc="center left", bbox_to_anchor=(1, 0.5))
    return figure


def gpu(content: dict[str, Any]) -> Figure:
    """Our time as a part of the peers', row by row."""
    known = {row["row"]: row for row in content["rows"] if "ratio" in row}
    names = [name for name in GPU_ROWS if name in known]
    note = f"{content['device']}; {content['backbone']} at {content['size']} px; blue: ours, grey: the peers' way"
    figure = sheet(8.4, 0.45 * len(names) + 1.1, note)
    axes = figure.subplots()
    for place, name in enumerate(names):
        row = known[name]
        part = 1 / row["ratio"]
        axes.barh(place, max(1.0, part), height=0.62, color=PALE)
        axes.barh(place, part, height=0.62, color=BLUE)
        inside = part > NARROW
        at, colour = (0.015, "white") if inside else (part + 0.015, INK)
        axes.text(at, place, f"{row['ours']:.2g} s", va="center", color=colour, weight="bold")
        theirs = f"{row['peers']:.2g} s" if row["peers"] < 10 else f"{row['peers']:.0f} s"
        axes.text(0.985, place, theirs, va="center", ha="right", color=INK)
        axes.text(1.03, place, f"{row['ratio']:.1f} ×", va="center", color=INK, weight="bold")
        if "share" in row:
            axes.text(1.14, place, f"{100 * row['share']:.0f} % of the ceiling", va="center", color=INK)
    axes.set_yticks(range(len(names)), [GPU_ROWS[name] for name in names])
    axes.set(xlim=(0, 1.42), xticks=[0, 0.25, 0.5, 0.75, 1], xticklabels=["0", "¼", "½", "¾", "1"])
    axes.set_xlabel("time, as a part of the peers' way", loc="left")
    axes.spines[["left", "bottom"]].set_visible(False)
    axes.tick_params(length=0)
    return figure


def retrieval(content: list[dict[str, Any]] | dict[str, Any]) -> Figure:
    """Seconds and memory of the contenders, set by set."""
    about, rows = (content.get("hardware", ""), content["rows"]) if isinstance(content, dict) else ("", content)
    rows = [row for row in rows if row["contender"] in CONTENDERS]
    sets = list(dict.fromkeys(which(row) for row in rows))
    figure = sheet(9.6, 1.05 * len(sets) + 1.2, about)
    grid = figure.subplots(1, 2, sharey=True)
    for axes, key, label in zip(grid, ("seconds", "mib"), ("seconds", "MiB beyond the vectors"), strict=True):
        for place, (name, (title, colour)) in enumerate(CONTENDERS.items()):
            mine = [row for row in rows if row["contender"] == name]
            y = [sets.index(which(row)) + 0.17 * (place - 2) for row in mine]
            axes.scatter([row[key] for row in mine], y, s=42, color=colour, label=title, zorder=2)
            for row, height in zip(mine, y, strict=True):
                beside: Any = {"xytext": (7, 0), "textcoords": "offset points", "va": "center", "fontsize": 8}
                axes.annotate(f"{row[key]:.3g}", (row[key], height), color=INK, **beside)
        axes.set(xscale="log", xlabel=label)
        axes.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
        axes.grid(axis="x", color=RULE, linewidth=0.6)
        axes.margins(x=0.14)
    grid[0].set_yticks(range(len(sets)), sets)
    grid[0].set_ylim(len(sets) - 0.5, -0.5)
    grid[1].legend(frameon=False, loc="center left", bbox_to_anchor=(1, 0.5))
    return figure


def which(row: dict[str, Any]) -> str:
    return f"{row['vectors']:,} × {row['dim']}\n{row['queries']:,} queries"


FIGURES: dict[str, Callable[[Any], Figure]] = {
    "growth": growth,
    "growth-gpu": growth,
    "losses": losses,
    "gpu-resnet18": gpu,
    "gpu-resnet50": gpu,
    "metrics": retrieval,
}


def draw(folder: Path) -> None:
    """Every picture whose numbers are in a folder."""
    for name, figure in FIGURES.items():
        source, target = folder / f"{name}.json", folder / f"{name}.png"
        if not source.exists():
            print(f"no {source.name}, so no {target.name}")
            continue
        with mpl.rc_context(STYLE):
            figure(json.loads(source.read_text())).savefig(target, dpi=150, pil_kwargs={"optimize": True})
        print(f"{target.name}: {target.stat().st_size / 1024:.0f} KiB")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="where the JSON files are")
    draw(parser.parse_args().folder)


if __name__ == "__main__":
    main()
