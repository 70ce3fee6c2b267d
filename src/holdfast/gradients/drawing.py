"""The figures of a rule."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from holdfast.errors import HoldfastError

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from holdfast.gradients.explanation import Diagram, Explanation

BLUE, ORANGE, GREY = "#0072B2", "#D55E00", "#8A8A8A"
"""Colours that stay apart under every common colour blindness (Okabe and Ito)."""

DASHED: Any = (0, (4, 2))
SIDE = 3.6
STYLE: Any = {
    "font.size": 9,
    "axes.titlesize": 10,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": "#555555",
    "axes.linewidth": 0.8,
    "xtick.color": "#333333",
    "ytick.color": "#333333",
}


def draw(explanation: Explanation) -> Figure:
    """One row of panels for the rule, a second one where there are diagrams of embedded images."""
    try:
        import matplotlib as mpl
        from matplotlib.figure import Figure
        from matplotlib.layout_engine import ConstrainedLayoutEngine
    except ImportError as error:
        raise HoldfastError("drawing needs matplotlib; install it with `pip install matplotlib`") from error
    rows = 2 if explanation.diagrams else 1
    spaced = ConstrainedLayoutEngine(w_pad=0.12, h_pad=0.10)
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(3.35 * SIDE, rows * SIDE + 0.5), layout=spaced, facecolor="white")
        title = str(explanation.components)
        figure.suptitle(title if explanation.name == title else f"{explanation.name}   ({title})", fontsize=12)
        count = len(explanation.diagrams)
        grid = figure.add_gridspec(rows, max(6, 2 * count))
        _pair(figure.add_subplot(grid[0, 0:2]), explanation)
        _triplet(figure, figure.add_subplot(grid[0, 2:4]), explanation)
        _force(figure.add_subplot(grid[0, 4:6]), explanation)
        lowest = min([0.0, *(float(torch.cat(found).min()) for found in explanation.diagrams.values())])
        for place, (name, found) in enumerate(explanation.diagrams.items()):
            left = max(0, 3 - count) + 2 * place
            _diagram(figure.add_subplot(grid[1, left : left + 2]), name, found, lowest)
    return figure


def _pair(axes: Axes, explanation: Explanation) -> None:
    s = explanation.grid.numpy()
    for curve in explanation.pair:
        style, faint = (DASHED, 0.75) if curve.gap else ("-", 1.0)
        axes.plot(s, curve.positive.numpy(), color=BLUE, linestyle=style, linewidth=3.2, alpha=faint)
        axes.plot(s, curve.negative.numpy(), color=ORANGE, linestyle=style, linewidth=1.8, alpha=faint)
    handles: list[Any] = [
        axes.plot([], [], color=BLUE, linewidth=3.2, label="positive pair, P₊")[0],
        axes.plot([], [], color=ORANGE, linewidth=1.8, label="negative pair, P₋")[0],
    ]
    if len(explanation.pair) > 1:
        label = f"others less similar by {explanation.pair[1].gap:g}"
        handles.append(axes.plot([], [], color=GREY, linewidth=2, linestyle=DASHED, label=label)[0])
    axes.legend(handles=handles, frameon=False, loc="best", handlelength=2.2)
    axes.set(title="a  Pair weight", xlabel="similarity of the pair", xlim=(-1, 1))
    axes.set_ylim(bottom=0, top=max(1.05, axes.get_ylim()[1]))


def _triplet(figure: Figure, axes: Axes, explanation: Explanation) -> None:
    s, weight = explanation.grid.numpy(), explanation.triplet.numpy()
    shown = axes.imshow(weight, origin="lower", extent=(-1, 1, -1, 1), cmap="viridis", vmin=0, vmax=1)
    if weight.max() - weight.min() > 1e-6:
        lines = axes.contour(s, s, weight, levels=16, colors="white", linewidths=0.7, alpha=0.8)
        axes.clabel(lines, fontsize=7, fmt="%.2g")
    if not bool(explanation.pulls.all()):
        dropped = (~explanation.pulls).double().numpy()
        axes.contourf(s, s, dropped, levels=[0.5, 1.5], colors="none", hatches=["\\\\\\\\"]).set_edgecolor("#FFFFFF90")
        axes.contour(s, s, dropped, levels=[0.5], colors="white", linewidths=1.6)
        axes.set_title("hatched: only pushes", loc="right", fontsize=8, fontweight="normal", color="#555555")
    _frame(axes, "b  Triplet weight", 0.0)
    figure.colorbar(shown, ax=axes, shrink=0.82, pad=0.02, ticks=[0, 0.5, 1]).outline.set_visible(False)


def _force(axes: Axes, explanation: Explanation) -> None:
    own = explanation.components.direction.removesuffix("-orth")
    labels = {"euc": (-0.20, 0.54, "√((1+s)/2)   euclidean"), "cos": (-0.42, 1.02, "√(1−s²)   cosine")}
    for name, values in explanation.force.items():
        colour, width = (BLUE, 2.4) if name == own else (GREY, 1.4)
        axes.plot(explanation.grid.numpy(), values.numpy(), color=colour, linewidth=width)
        x, y, text = labels[name]
        axes.text(x, y, text, color=colour, fontweight="bold" if name == own else "normal")
    axes.set(title="c  Effective force", xlabel="similarity of the pair", xlim=(-1, 1), ylim=(0, 1.12))


def _diagram(axes: Axes, name: str, found: Diagram, lowest: float) -> None:
    s_ap, s_an = found.s_ap.cpu().numpy(), found.s_an.cpu().numpy()
    axes.hexbin(s_ap, s_an, gridsize=80, extent=(-1, 1, -1, 1), mincnt=1, bins="log", cmap="viridis", linewidths=0)
    _frame(axes, f"d  Nearest pairs, {name}", lowest)
    counts = f"{len(s_ap):,} images, R@1 {found.solved:.1f}"
    axes.text(0.98, 0.03, counts, transform=axes.transAxes, ha="right", color="#333333")


def _frame(axes: Axes, title: str, lowest: float) -> None:
    axes.plot([-1, 1], [-1, 1], color=GREY, linewidth=0.8, linestyle=":")
    axes.set(title=title, xlabel="similarity to the positive", ylabel="similarity to the negative")
    axes.set(xlim=(lowest, 1), ylim=(lowest, 1), aspect="equal")
