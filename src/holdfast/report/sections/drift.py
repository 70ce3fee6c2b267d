"""BatchNorm statistics of other kinds of pictures, against those of clean ones."""

from __future__ import annotations

from typing import Any

from holdfast.report import formatting as fmt
from holdfast.report.charts.frame import Axis, round_axis
from holdfast.report.charts.lines import Series, line_chart
from holdfast.report.sections.base import Section, Source
from holdfast.run_files import finite

STATISTICS = {"running_mean": "mean", "running_var": "variance", "weight": "scale", "bias": "offset"}


def drift(source: Source) -> Section:
    """One chart for each kind of pictures: how far each statistic is from the clean one, layer by layer."""
    block: dict[str, dict[str, dict[str, Any]]] = source.exhibit("drift")
    top = max(_value(layer, key) for layers in block.values() for layer in layers.values() for key in STATISTICS)
    y = round_axis(0, top or 1)
    charts, largest = [], (-1.0, "", "")
    for kind, layers in block.items():
        series = [
            Series(word, [(n, _value(layer, key)) for n, layer in enumerate(layers.values(), 1)], f"s{i}", dots=True)
            for i, (key, word) in enumerate(STATISTICS.items(), 1)
        ]
        x = Axis(
            1, max(2, len(layers)), [(n, str(n)) for n in _ticks(len(layers))], "BatchNorm layer, from input to output"
        )
        desc = f"{len(layers)} layers: {fmt.short(', '.join(layers), 300)}"
        charts.append(
            {
                "title": f"Kind of pictures: {fmt.short(kind)}",
                "svg": line_chart(series, x, y, kind, desc, height=200),
            }
        )
        for number, (name, layer) in enumerate(layers.items(), 1):
            largest = max(largest, (_value(layer, "running_mean"), kind, f"{number} ({fmt.short(name, 32)})"))
    _, farthest, place = largest
    title = f"The mean of {fmt.short(farthest, 24)} pictures is farthest from that of clean ones in layer {place}"
    return Section(title, {"charts": charts})


def _value(layer: dict[str, Any], key: str) -> float:
    return finite(layer.get(key)) or 0.0


def _ticks(layers: int) -> list[int]:
    step = max(1, -(-layers // 8))
    return list(range(1, layers + 1, step))
