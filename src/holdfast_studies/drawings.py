"""Figures of studies as plain descriptions; `holdfast_studies.drawing` draws them."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import TypeAlias


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


@dataclasses.dataclass(frozen=True)
class Scatter:
    """One point per arm, one figure against another.

    Args:
        title: above it.
        arms: which.
        x: figure of the x axis.
        y: figure of the y axis.
    """

    title: str
    arms: tuple[str, ...]
    x: str
    y: str


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
