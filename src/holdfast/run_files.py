"""What the files of a run say, read without torch and without trust: numbers, the lines of its log, what it cost."""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Mapping, Sequence
from typing import Any

ON_TEST = "test"
"""The key of a log's lines that hold figures on the test classes."""


def parse_json(text: str | bytes) -> Any:
    """What a stranger's JSON holds; `ValueError` for what is none, and for what is nested without end."""
    try:
        return json.loads(text)
    except RecursionError as error:
        raise ValueError("it is nested too deep") from error


def finite(value: Any) -> float | None:
    """The number, or None for anything that is not a finite one; files may hold anything."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    try:
        known = float(value)
    except OverflowError:  # JSON has whole numbers of any length
        return None
    return known if math.isfinite(known) else None


def block(document: Any, key: str) -> dict[str, Any]:
    """A dictionary inside a dictionary; empty where it is missing."""
    inner = document.get(key) if isinstance(document, Mapping) else None
    return inner if isinstance(inner, dict) else {}


def blocks(document: Any, key: str) -> list[dict[str, Any]]:
    """The dictionaries of a list inside a dictionary; what is none is left out."""
    inner = document.get(key) if isinstance(document, Mapping) else None
    return [entry for entry in inner if isinstance(entry, dict)] if isinstance(inner, list) else []


def data_block(document: Mapping[str, Any]) -> dict[str, Any]:
    """The dataset that a recipe, an evaluation or an audit names; a bare name is a block, too."""
    data = document.get("data")
    return data if isinstance(data, dict) else {"name": data} if data and isinstance(data, str) else {}


def log_lines(text: str | None) -> list[dict[str, Any]]:
    """Whole lines of a log; one cut off by a crash is left out."""
    entries = []
    for line in (text or "").split("\n"):  # other signs that end a line may stand inside a name
        try:
            entry = parse_json(line)
        except ValueError:
            continue
        if isinstance(entry, dict):
            entries.append(entry)
    return entries


def batch_size(recipe: Mapping[str, Any]) -> int | None:
    """Images per step."""
    batch = block(recipe, "batch")
    classes, each = finite(batch.get("classes")), finite(batch.get("per_class"))
    size = None if classes is None or each is None else finite(classes * each)
    return None if size is None else int(size)


def training_seconds(log: Sequence[Mapping[str, Any]], batch: int | None) -> float | None:
    """Time spent in training steps: what the log counts, without evaluations and starting.

    Args:
        log: its lines.
        batch: images per step.
    """
    speeds = _since_the_last(log, "images_per_second")
    return None if batch is None else finite(sum(taken * batch / speed for taken, speed in speeds)) or None


def passes_per_step(log: Sequence[Mapping[str, Any]]) -> float | None:
    """How often a step ran the model forward and back, on average."""
    passes = _since_the_last(log, "passes")
    total = sum(taken for taken, _ in passes)
    return finite(sum(taken * each for taken, each in passes) / total) if total else None


def _since_the_last(log: Sequence[Mapping[str, Any]], key: str) -> list[tuple[float, float]]:
    """The numbers above zero that steps have under a key, each with how many steps it stands for."""
    known = [(step, value) for step, line in steps(log) if (value := finite(line.get(key)))]
    return [(step - before, value) for (before, _), (step, value) in itertools.pairwise([(0.0, 0.0), *known])]


def steps(log: Sequence[Mapping[str, Any]]) -> list[tuple[float, Mapping[str, Any]]]:
    """The lines that belong to a step, with its number as a float: whole numbers do not overflow quietly."""
    return [(step, line) for line in log if (step := finite(line.get("step"))) is not None]


def curve_on_test(lines: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The epochs of a log in which the test classes were looked at, with what was found; a later line replaces one."""
    found: dict[float, dict[str, Any]] = {}
    for line in lines:
        epoch, values = finite(line.get("epoch")), line.get(ON_TEST)
        if epoch is not None and isinstance(values, dict):
            found[epoch] = {"epoch": line["epoch"], **values}
    return [found[epoch] for epoch in sorted(found)]


def best_on_test(curve: Sequence[Mapping[str, Any]]) -> dict[str, Any] | None:
    """The epoch with the highest R@1 on the test classes, the first of equals, not counting the untrained model."""
    known = [point for point in curve if point["epoch"] > 0 and finite(point.get("R@1")) is not None]
    return dict(max(known, key=lambda point: point["R@1"])) if known else None
