"""Figures show the numbers they are given, and nothing that was not run."""

from __future__ import annotations

from pathlib import Path

import pytest
from PIL import Image, ImageColor

from holdfast_studies.drawing import PALETTE, Bars, Curves, Drawing, Lines, Scatter, draw, undominated, write
from holdfast_studies.results import Outcome, Results

SERIES = {"p/path": [[0, 1.0], [1, 2.0]]}


def outcomes(value: float) -> list[Outcome]:
    return [Outcome(seed=n, figures={"R@1": value + n, "ERS": 2 * value - n}, series=SERIES) for n in range(3)]


FOUND = Results(outcomes={"a": outcomes(10.0), "b": outcomes(30.0), "none": []})
ARMS = ("a", "none", "b")
DRAWINGS: list[Drawing] = [
    Bars(title="bars", arms=ARMS, figures={"R@1": "R@1", "ERS": "ERS"}),
    Bars(title="one bar", arms=ARMS, figures={"R@1": "R@1"}, unit=""),
    Lines(title="lines", lines={"l": {0: "a", 0.1: "none", 1: "b"}, "none": {0: "none"}}, x="λ", logarithmic=True),
    Scatter(title="scatter", arms=ARMS, x="R@1", y="ERS"),
    Curves(title="curves", arms=ARMS, series="p/path", x="x", y="y"),
    Curves(title="points", arms=ARMS, series="p/path", x="x", y="y", points=True),
]


@pytest.mark.parametrize("drawing", DRAWINGS, ids=lambda d: d.title)
def test_the_same_file_every_time(drawing: Drawing, tmp_path: Path) -> None:
    files = [tmp_path / name for name in ("a.png", "deep/b.png")]
    for file in files:
        figure = draw(drawing, FOUND, {"R@1": "recall"})
        assert figure is not None
        write(figure, file)
    assert files[0].read_bytes() == files[1].read_bytes()
    assert Image.open(files[0]).width > 600
    assert len(Image.open(files[0]).getcolors()) > 10


@pytest.mark.parametrize("drawing", DRAWINGS, ids=lambda d: d.title)
def test_nothing_run_is_nothing_drawn(drawing: Drawing) -> None:
    assert draw(drawing, Results(outcomes={"a": [], "b": []}), {}) is None


def test_bars_are_means_and_arms_not_run_are_left_out() -> None:
    figure = draw(DRAWINGS[1], FOUND, {})
    assert figure is not None
    axes = figure.axes[0]
    assert [label.get_text() for label in axes.get_yticklabels()] == ["a", "b"]
    assert [bar.get_width() for bar in axes.patches if bar.get_width()] == [11.0, 31.0]


def test_lines_go_through_means_in_order_of_x() -> None:
    figure = draw(DRAWINGS[2], FOUND, {"R@1": "recall"})
    assert figure is not None
    axes = figure.axes[0]
    drawn = [line.get_xydata().tolist() for line in axes.lines]
    assert [[0, 11], [1, 31]] in drawn
    assert axes.get_ylabel() == "recall, %"
    assert "none" not in axes.get_legend_handles_labels()[1]


def test_points_of_a_scatter_are_means() -> None:
    figure = draw(DRAWINGS[3], FOUND, {})
    assert figure is not None
    large = [line.get_xydata().tolist() for line in figure.axes[0].lines if not line.get_label().startswith("_")]
    assert large == [[[11.0, 19.0]], [[31.0, 59.0]]]


def test_points_of_a_scatter_are_of_seeds_that_have_both_figures() -> None:
    both = [Outcome(seed=n, figures={"R@1": 10.0 + n, "ERS": 20.0}) for n in range(2)]
    half = [Outcome(seed=2, figures={"R@1": 99.0}), Outcome(seed=3, figures={"ERS": 99.0})]
    figure = draw(DRAWINGS[3], Results(outcomes={"a": [*both, *half], "b": half}), {})
    assert figure is not None
    drawn = {line.get_label(): line.get_xydata().tolist() for line in figure.axes[0].lines}
    assert drawn.pop("a") == [[10.5, 20.0]]
    assert list(drawn.values()) == [[[10.0, 20.0], [11.0, 20.0]]], "b has no seed with both"


def test_a_frontier_joins_and_names_what_no_other_beats() -> None:
    points = {"a": (10.0, 40.0), "b": (20.0, 30.0), "c": (19.0, 29.0), "d": (20.0, 25.0), "e": (30.0, 5.0)}
    found = Results(outcomes={arm: [Outcome(seed=0, figures={"R@1": x, "ERS": y})] for arm, (x, y) in points.items()})
    figure = draw(Scatter("all", tuple(points), x="R@1", y="ERS", frontier=True), found, {})
    assert figure is not None
    (axes,) = figure.axes
    assert [text.get_text() for text in axes.texts] == ["1", "2", "3"]
    assert [text.get_text() for text in axes.get_legend().get_texts()] == ["1  a", "2  b", "3  e", "others"]
    assert [list(points[arm]) for arm in "abe"] in [line.get_xydata().tolist() for line in axes.lines]
    far = Outcome(seed=0, figures={"R@1": -90.0, "ERS": 5.0})
    found = Results(outcomes={**found.outcomes, "far": [far], **{f"near {n}": found.outcomes["c"] for n in range(9)}})
    figure = draw(Scatter("all", tuple(found.outcomes), x="R@1", y="ERS", frontier=True), found, {})
    assert figure is not None
    assert "(1 more lies far below)" in [text.get_text() for text in figure.axes[0].get_legend().get_texts()]
    assert figure.axes[0].get_xlim()[0] > 0, "the others stay apart"
    assert undominated({"alike": (1.0, 1.0), "same": (1.0, 1.0)}) == ["alike", "same"]


def test_points_are_coloured_by_their_third_number_alike_in_every_panel() -> None:
    def outcome(*points: list[float]) -> list[Outcome]:
        return [Outcome(seed=0, figures={}, series={"p/cloud": list(points)})]

    clouds = {"a": outcome([0, 0, 3], [1, 1, 0], [2, 2, 3]), "b": outcome([5, 5, 3], [6, 6, 1]), "c": outcome([7, 7])}
    drawing = Curves(title="clouds", arms=("a", "b", "c"), series="p/cloud", x="x", y="y", points=True)
    figure = draw(drawing, Results(outcomes=clouds), {})
    assert figure is not None
    found = [
        {line.get_color(): line.get_xydata().tolist() for line in axes.lines} for axes in figure.axes if axes.lines
    ]
    zero, one, three, plain = PALETTE[:4]
    assert found == [
        {three: [[0, 0], [2, 2]], zero: [[1, 1]]},
        {three: [[5, 5]], one: [[6, 6]]},
        {plain: [[7, 7]]},
    ]
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["0", "1", "3"]


def test_a_file_keeps_the_colours_of_a_legend(tmp_path: Path) -> None:
    cloud = [
        [place / 10 + 0.01 * turn, 0.003 * turn, float(place)] for place in range(len(PALETTE)) for turn in range(60)
    ]
    found = Results(outcomes={"a": [Outcome(seed=0, figures={}, series={"p/cloud": cloud})]})
    figure = draw(Curves(title="cloud", arms=("a",), series="p/cloud", x="x", y="y", points=True), found, {})
    assert figure is not None
    write(figure, tmp_path / "cloud.png")
    with Image.open(tmp_path / "cloud.png") as file:
        counted = file.convert("RGB").getcolors(1 << 16) or []
    for colour in PALETTE:
        apart = [max(abs(a - b) for a, b in zip(ImageColor.getrgb(colour), one, strict=True)) for _, one in counted]
        assert min(apart) < 25, f"{colour} is there, or what looks like it"


def test_points_of_one_kind_need_no_legend() -> None:
    figure = draw(DRAWINGS[5], FOUND, {})
    assert figure is not None
    assert not figure.legends
    assert {line.get_color() for axes in figure.axes for line in axes.lines} == {PALETTE[0]}


def test_colours_are_all_different() -> None:
    assert len(set(PALETTE)) == len(PALETTE)
