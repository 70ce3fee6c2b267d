"""Learning curves: the loss, validation and test classes, and what the regime logs."""

from __future__ import annotations

from typing import Any

from markupsafe import Markup

from holdfast.report import formatting as fmt
from holdfast.report.charts import PERCENT_TICKS, Axis, Label, Series, line_chart, round_axis
from holdfast.report.context import Absent, PageContext, Section, SectionContent
from holdfast.run_files import ON_TEST, best_on_test, block, curve_on_test, finite

BOOKKEEPING = {"step", "epoch", "lr", "loss", "images_per_second", "passes", "validation", ON_TEST}
WORDS = {
    "hardness": "Hardness of triplets; above 0, wrong ones are nearer",
    "shift": "How far attacks move embeddings",
    "moved": "Fraction of triplets made harder",
    "loss": "Loss by kind of image",
    "spread": "Spread of embeddings; near 0 all would be one point",
}
Points = list[tuple[float, float]]


def show(context: PageContext) -> SectionContent:
    """One small chart each."""
    log = context.files.log
    loss = points(log, "loss")
    recall = validation(log, "R@1")
    tested = points(curve_on_test(log), "R@1")
    if not loss and not recall and not tested:
        raise Absent("no metrics.jsonl with logged steps: this model was not trained here")
    charts = []
    if recall:
        charts.append(_chart("Validation R@1, percent", {"R@1": recall}, percent=True, labelled=True))
    if tested:
        charts.append(_chart("Test R@1, percent", {"R@1": tested}, percent=True, labelled=True))
    if loss:
        charts.append(_chart("Training loss", {"loss": loss}))
    charts += [_chart(title, group) for title, group in regime_groups(log).items()]
    content = {"charts": charts, "on_test": on_test(context) if tested else None}
    return SectionContent(_title(recall, tested, loss), content)


def on_test(context: PageContext) -> dict[str, Any] | None:
    """The figure of the model that is reported, and the best epoch on the test classes, each under its name."""
    evaluation = context.files.evaluation
    best = block(evaluation, "best_on_test") or best_on_test(curve_on_test(context.files.log)) or {}
    recall = finite(best.get("R@1"))
    if recall is None:
        return None
    reported = finite(block(evaluation, "metrics").get("R@1"))
    return {
        "reported": None if reported is None else fmt.percent(reported),
        "which": fmt.short(str(evaluation.get("reported") or "last")),
        "best": fmt.percent(recall),
        "epoch": fmt.count(best.get("epoch")),
    }


def points(log: list[dict[str, Any]], key: str) -> Points:
    """(epoch, value) of every line that has the key."""
    pairs = [(finite(line.get("epoch")), finite(line.get(key))) for line in log]
    return [(x, y) for x, y in pairs if x is not None and y is not None]


def validation(log: list[dict[str, Any]], key: str) -> Points:
    """(epoch, value) of every validation."""
    return points([{"epoch": line.get("epoch"), key: block(line, "validation").get(key)} for line in log], key)


def regime_groups(log: list[dict[str, Any]]) -> dict[str, dict[str, Points]]:
    """What the regime logs, in charts: keys that share the word before `/` or `_` share one."""
    groups: dict[str, dict[str, Points]] = {}
    for key in dict.fromkeys(key for line in log for key in line if key not in BOOKKEEPING):
        found = points(log, key)
        if found:
            stem, _, rest = str(key).replace("/", "_", 1).partition("_")
            groups.setdefault(WORDS.get(stem, fmt.short(stem)), {})[rest or stem] = found
    return groups


def _chart(title: str, lines: dict[str, Points], percent: bool = False, labelled: bool = False) -> dict[str, Any]:
    every = [point for line in lines.values() for point in line]
    x = round_axis(min(a for a, _ in every), max(a for a, _ in every), "epoch")
    x = Axis(x.low, max(a for a, _ in every) or 1.0, x.ticks, x.title)
    x = Axis(x.low, x.high, [(v, text) for v, text in x.ticks if v <= x.high], x.title)
    y = Axis(0, 100, PERCENT_TICKS) if percent else round_axis(min(b for _, b in every), max(b for _, b in every))
    series = [
        Series(fmt.short(name, 24), line, f"s{1 + n % 7}", dots=labelled)
        for n, (name, line) in enumerate(lines.items())
    ]
    labels = []
    if labelled:
        last_x, last_y = every[-1]
        labels = [
            Label(fmt.number(last_y), x.place(last_x), y.place(last_y), "below" if y.place(last_y) > 0.8 else "end")
        ]
    desc = "; ".join(f"{name}: from {a[0][1]:.3g} to {a[-1][1]:.3g}" for name, a in lines.items())
    drawn: Markup = line_chart(series, x, y, title, desc, labels, height=190)
    return {"title": title, "svg": drawn}


def _title(recall: Points, tested: Points, loss: Points) -> str:
    for name, line in (("Validation", recall), ("Test", tested)):
        if len(line) > 1:
            first, last = line[0][1], line[-1][1]
            start, end = fmt.percent(first), fmt.percent(last)
            if start == end:
                return f"{name} R@1 stayed at {end}"
            return f"{name} R@1 {'rose' if last > first else 'fell'} from {start} to {end}"
    if len(loss) > 1:
        return f"The loss went from {loss[0][1]:.3g} to {loss[-1][1]:.3g}"
    return "Learning curves"


SECTION = Section("curves", "Learning curves", show)
