"""Learning curves: the loss, validation and test classes, and what the regime logs."""

from __future__ import annotations

from typing import Any

from holdfast.report import formatting as fmt
from holdfast.report.charts import PERCENT_TICKS, Axis, Chart, Label, Points, line_chart, round_axis
from holdfast.report.context import Absent, PageContext, Section
from holdfast.run_files import ON_TEST, best_on_test, block, curve_on_test, finite, is_fitted

BOOKKEEPING = {"step", "epoch", "lr", "loss", "images_per_second", "passes", "passed", "validation", ON_TEST}
WORDS = {
    "hardness": "Hardness of triplets; above 0, wrong ones are nearer",
    "shift": "How far attacks move embeddings",
    "moved": "Fraction of triplets made harder",
    "loss": "Loss by kind of image",
    "spread": "Spread of embeddings; near 0 all would be one point",
}


def show(context: PageContext) -> dict[str, Any]:
    """One small chart each."""
    log = context.files.log
    loss, recall, tested = points(log, "loss"), validation(log), points(curve_on_test(log), "R@1")
    if not loss and not recall and not tested:
        if is_fitted(context.files.recipe):
            raise Absent("the model was fitted in one go")
        raise Absent("no metrics.jsonl with logged steps: this model was not trained here")
    recalls = {"Validation R@1, percent": recall, "Test R@1, percent": tested}
    charts = [_chart(title, {"R@1": line}, percent=True) for title, line in recalls.items() if line]
    charts += [_chart("Training loss", {"loss": loss})] if loss else []
    charts += [_chart(title, group) for title, group in regime_groups(log).items()]
    return {"title": _title(recall, tested, loss), "charts": charts, "on_test": on_test(context) if tested else None}


def on_test(context: PageContext) -> dict[str, Any] | None:
    """The figure of the model that is reported, and the best epoch on the test classes, each under its name."""
    evaluation = context.files.evaluation
    best = block(evaluation, "best_on_test") or best_on_test(curve_on_test(context.files.log)) or {}
    if finite(best.get("R@1")) is None:
        return None
    reported = finite(block(evaluation, "metrics").get("R@1"))
    return {"reported": reported, "which": evaluation.get("reported") or "last", "best": best}


def points(log: list[dict[str, Any]], key: str) -> Points:
    """(epoch, value) of every line that has the key."""
    pairs = [(finite(line.get("epoch")), finite(line.get(key))) for line in log]
    return [(x, y) for x, y in pairs if x is not None and y is not None]


def validation(log: list[dict[str, Any]]) -> Points:
    """(epoch, R@1) of every validation."""
    return points([{"epoch": line.get("epoch"), "R@1": block(line, "validation").get("R@1")} for line in log], "R@1")


def regime_groups(log: list[dict[str, Any]]) -> dict[str, dict[str, Points]]:
    """What the regime logs, in charts: keys that share the word before `/` or `_` share one."""
    groups: dict[str, dict[str, Points]] = {}
    for key in dict.fromkeys(key for line in log for key in line if key not in BOOKKEEPING):
        found = points(log, key)
        if found:
            stem, _, rest = str(key).replace("/", "_", 1).partition("_")
            groups.setdefault(WORDS.get(stem, fmt.short(stem)), {})[rest or stem] = found
    return groups


def _chart(title: str, lines: dict[str, Points], percent: bool = False) -> Chart:
    """Lines over epochs; percentages with their points, the last one labelled."""
    epochs, values = zip(*[point for line in lines.values() for point in line], strict=True)
    last = max(epochs) or 1.0
    x = round_axis(min(epochs), max(epochs), "epoch")
    x = Axis(x.low, last, [(v, text) for v, text in x.ticks if v <= last], x.title)
    y = Axis(0, 100, PERCENT_TICKS) if percent else round_axis(min(values), max(values))
    named = [(fmt.short(name, 24), line) for name, line in lines.items()]
    height = y.place(values[-1])
    end = Label(fmt.number(values[-1]), x.place(epochs[-1]), height, "below" if height > 0.8 else "end")
    desc = "; ".join(f"{name}: from {line[0][1]:.3g} to {line[-1][1]:.3g}" for name, line in lines.items())
    return line_chart(named, x, y, title, desc, dots=percent, labels=[end] if percent else [], height=190)


def _title(recall: Points, tested: Points, loss: Points) -> str:
    for name, line in (("Validation", recall), ("Test", tested)):
        if len(line) > 1:
            return f"{name} R@1 {fmt.change(line[0][1], line[-1][1], 'rose', 'fell', 'stayed')}"
    if len(loss) > 1:
        return f"The loss went from {loss[0][1]:.3g} to {loss[-1][1]:.3g}"
    return "Learning curves"


SECTION = Section("curves", "Learning curves", show)
