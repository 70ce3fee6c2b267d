"""BatchNorm statistics of other kinds of images, against those of clean ones."""

from __future__ import annotations

import math
from typing import Any

from holdfast.report import formatting as fmt
from holdfast.report.charts import Axis, line_chart, round_axis
from holdfast.report.context import Absent, CollectContext, PageContext, Section
from holdfast.run_files import finite

STATISTICS = {"running_mean": "mean", "running_var": "variance", "weight": "scale", "bias": "offset"}


def collect(context: CollectContext) -> dict[str, dict[str, dict[str, float]]]:
    """Distribution → layer → tensor → root mean square gap to the clean set."""
    found = context.embedder.bank.drift(context.embedder.backbone)
    if not found:
        raise Absent("the model has no BatchNorm sets beside its own; only regimes such as mdprop train them")
    if not all(math.isfinite(gap) for layers in found.values() for gaps in layers.values() for gap in gaps.values()):
        raise Absent("the BatchNorm sets contain NaN or inf")
    return found


def show(context: PageContext) -> dict[str, Any]:
    """One chart for each kind of images: how far each statistic is from the clean one, layer by layer."""
    stored: dict[str, dict[str, dict[str, Any]]] = context.exhibit("drift")
    top = max(_value(layer, key) for layers in stored.values() for layer in layers.values() for key in STATISTICS)
    y = round_axis(0, top or 1)
    charts, largest = [], (-1.0, "", "")
    for kind, layers in stored.items():
        lines = [
            (word, [(n, _value(layer, key)) for n, layer in enumerate(layers.values(), 1)])
            for key, word in STATISTICS.items()
        ]
        ticks = [(n, str(n)) for n in range(1, len(layers) + 1, max(1, -(-len(layers) // 8)))]
        x = Axis(1, max(2, len(layers)), ticks, "BatchNorm layer, from input to output")
        desc = f"{fmt.counted(len(layers), 'layer')}: {fmt.short(', '.join(layers), 300)}"
        charts.append(line_chart(lines, x, y, kind, desc, dots=True, height=200))
        for number, (name, layer) in enumerate(layers.items(), 1):
            largest = max(largest, (_value(layer, "running_mean"), kind, f"{number} ({fmt.short(name, 32)})"))
    _, farthest, place = largest
    title = f"The mean of {fmt.short(farthest, 24)} images is farthest from that of clean ones in layer {place}"
    return {"title": title, "charts": charts}


def _value(layer: dict[str, Any], key: str) -> float:
    return finite(layer.get(key)) or 0.0


SECTION = Section("drift", "BatchNorm", show, {"drift": collect}, optional=True)
