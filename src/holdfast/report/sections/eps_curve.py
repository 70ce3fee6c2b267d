"""How much of retrieval is left as attacks grow stronger."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

from holdfast.report import formatting as fmt
from holdfast.report.charts.frame import Axis, Label
from holdfast.report.charts.lines import Series, line_chart
from holdfast.report.sections.base import Section, Source
from holdfast.report.sections.recipe import block
from holdfast.run_files import finite
from holdfast.run_folder import RunFolder

Points = list[tuple[float, float]]


@dataclasses.dataclass(frozen=True)
class Fall:
    """R@1 without and with an attack, both of the same queries.

    Args:
        clean: percent, without.
        attacked: percent, with.
        eps: radius of the attack in pixel units.
        images: how many queries.
    """

    clean: float
    attacked: float
    eps: float
    images: float | None

    @property
    def words(self) -> str:
        """`falls from 80.0 % to 5.5 %`."""
        start, end = fmt.percent(self.clean), fmt.percent(self.attacked)
        if start == end:
            return f"stays at {end}"
        return f"{'falls' if self.attacked < self.clean else 'rises'} from {start} to {end}"


def fall(source: Source) -> Fall | None:
    """What an attack does to the data of the run's figures: of the curve, or of the audit's own ES:R."""
    files = source.files
    if source.other_data is None and (of_curve := _of_curve(files)):
        return of_curve
    metrics = block(files.audit, "metrics")
    clean, attacked = finite(metrics.get("R@1")), finite(metrics.get("ES:R"))
    eps = finite(block(files.audit, "budget").get("eps_pixel"))
    if clean is None or attacked is None or eps is None:
        return None
    return Fall(clean, attacked, eps, finite(files.audit.get("images")))


def _of_curve(files: RunFolder) -> Fall | None:
    """The curve's own start, and its point at the audit's radius; None where it lacks one of them."""
    wanted = finite(block(files.audit, "budget").get("eps_pixel")) or 8 / 255
    points = curve(files.exhibits.get("radius"))
    at = next(((eps, recall) for eps, recall in points if abs(eps - wanted) < 1e-6), None)
    if at is None or points[0][0] != 0:
        return None
    return Fall(points[0][1], at[1], at[0], finite(block(files.exhibits, "radius").get("images")))


def curve(radius: Any) -> Points:
    """(ε, R@1) of the exhibit, in order of ε; nothing where it is damaged, as a part of it would mislead."""
    if not isinstance(radius, dict):
        return []
    sizes, recalls = radius.get("eps_pixel"), radius.get("R@1")
    if not isinstance(sizes, list) or not isinstance(recalls, list) or len(sizes) != len(recalls):
        return []
    known = [(finite(a), finite(b)) for a, b in zip(sizes, recalls, strict=True)]
    points = sorted((a, b) for a, b in known if a is not None and b is not None and a >= 0)
    return points if len(points) == len(known) else []


def radius(source: Source) -> Section:
    """The curve, and that of a thorough audit where there is one."""
    block = source.exhibit("radius")
    points = curve(block)
    if not points:
        raise ValueError("a curve without points")
    series = [Series("one attack", points, "s1", dots=True)]
    worst = [] if source.other_data else _thorough(source.files)
    if worst:
        series.append(Series("worst of many attacks (thorough audit)", worst, "s2", dots=True))
    every = sorted({eps for line in series for eps, _ in line.points})
    ticks = [(doublings(eps), f"{255 * eps:.3g}") for eps in _apart(every)]
    x = Axis(0, doublings(every[-1]) or 1.0, ticks, "largest change of a pixel, of its 255 levels")
    series = [dataclasses.replace(line, points=[(doublings(a), b) for a, b in line.points]) for line in series]
    y = Axis(0, 100, [(v, str(v)) for v in (0, 25, 50, 75, 100)], "R@1, percent")
    labels = [
        Label(fmt.number(recall), x.place(doublings(eps)), y.place(recall), "end" if eps == every[-1] else "start")
        for eps, recall in points
    ]
    title = _title(points, source.files)
    desc = "; ".join(f"{fmt.eps(eps)}: {fmt.percent(recall)}" for eps, recall in points)
    return Section(
        title,
        {
            "svg": line_chart(series, x, y, title, desc, labels, height=300),
            "images": fmt.count(block.get("images")),
            "steps": block.get("steps"),
            "rows": [(fmt.eps(eps), fmt.percent(recall)) for eps, recall in points],
        },
    )


def _title(points: Points, files: RunFolder) -> str:
    of_curve = _of_curve(files)
    if of_curve is None:
        eps, recall = points[-1]
        return f"At {fmt.eps(eps)} per pixel, {fmt.percent(recall)} of the searches still succeed"
    return f"R@1 {of_curve.words} at {fmt.eps(of_curve.eps)} per pixel"


def _thorough(files: RunFolder) -> Points:
    for audit in files.audits.values():
        if audit.get("protocol") == "thorough":
            listed = audit.get("curve")
            rows = [row for row in listed if isinstance(row, dict)] if isinstance(listed, list) else []
            return curve({"eps_pixel": [r.get("eps") for r in rows], "R@1": [r.get("R@1") for r in rows]})
    return []


def doublings(eps: float) -> float:
    """Where a radius lies on an axis on which it doubles at every step, and that begins at none: log2(1 + 255 ε)."""
    return math.log2(1 + 255 * eps)


def _apart(values: list[float]) -> list[float]:
    """Those values that leave room for a label between them, from the largest down."""
    kept = [values[-1]]
    for value in reversed(values[:-1]):
        if doublings(kept[-1]) - doublings(value) >= 0.09 * doublings(values[-1]):
            kept.append(value)
    return kept
