"""What the files of a run say, read without torch and without trust: numbers, the lines of its log, what it cost."""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Mapping, Sequence
from typing import Any

from holdfast.errors import plural

ON_TEST = "test"
"""The key of a log's lines that hold figures on the test classes."""
START = "start"
"""Of the line with the figures of the model that training began with."""
FITTED = "fitted"
"""Of the line that says how a head was fitted before the first step, and what held-out classes made of it."""
KEPT = "kept"
"""Marks the line of each validation whose model was packaged; the last such model is the one that stays."""
UNDER_ATTACK = "robust R@1"
"""R@1 under attack in the line of a validation, where models are chosen by it."""

FEW_CLASSES, FEW_IMAGES = 5, 100
"""Fewer for validation choose by chance: one image in 50 is two points of R@1."""


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


def is_fitted(recipe: Mapping[str, Any]) -> bool:
    """Whether a recipe fits a head in closed form and takes no step."""
    return recipe.get("epochs") == 0 and bool(block(recipe, "model").get("head"))


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


def passed_images(log: Sequence[Mapping[str, Any]]) -> float:
    """How many images went forward and back through the model, each as often as it did; of one process."""
    return finite(sum(taken * each for taken, each in _since_the_last(log, "passed"))) or 0.0


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


def eps_words(budget: Mapping[str, Any]) -> str:
    """ε of an audit: `8/255 (0.137 normalised)`; in pixels alone where a model does its own preprocessing, unseen.

    The pixels of a patch are free, so that its ε is 1.
    """
    pixel, normalised = finite(budget.get("eps_pixel")), finite(budget.get("eps_normalized"))
    if pixel is None:
        return "unknown"
    if pixel == 1:
        return "1 within a patch"
    own = normalised is not None and abs(normalised - pixel) > 1e-6 * pixel
    return f"{255 * pixel:.3g}/255" + (f" ({normalised:.3g} normalised)" if own else "")


def outcome(
    log: Sequence[Mapping[str, Any]], evaluation: Mapping[str, Any], epochs: int, attacked: bool = False
) -> dict[str, Any]:
    """What training made of the model it began with, as evaluation.json holds it.

    Args:
        log: the lines of the run.
        evaluation: of the kept model; `metrics` and `splits`.
        epochs: that were trained.
        attacked: the regime attacks its images; what that costs in clean retrieval is a price and no failure.

    Returns:
        `start` (which model, its R@1 on test and validation classes; empty for a run that began before this was
        measured), `kept` (which epoch, why, its R@1 on the validation classes) and `warnings`.
    """
    start = next((block(line, START) for line in log if block(line, START)), {})
    chosen = next((line for line in reversed(log) if line.get(KEPT)), None)
    fitted = next((block(line, FITTED) for line in log if block(line, FITTED)), {})
    looked = any(line.get("epoch") and finite(block(line, "validation").get("R@1")) is not None for line in log)
    why = "every epoch's embeddings lay close together" if looked else "no validation classes to choose by"
    kept: dict[str, Any] = {"epoch": epochs, "why": fitted.get("why") if fitted and not epochs else f"the last: {why}"}
    counts, warnings = block(block(evaluation, "splits"), "val"), []
    if chosen is not None:
        figure = "R@1 under attack" if UNDER_ATTACK in block(chosen, "validation") else "R@1"
        kept = {"epoch": chosen["epoch"], "why": f"the best {figure} on the validation classes, the latest of equals"}
        kept["validation"] = block(chosen, "validation").get("R@1")
        if counts.get("classes", FEW_CLASSES) < FEW_CLASSES or counts.get("images", FEW_IMAGES) < FEW_IMAGES:
            warnings.append(
                f"{plural(counts['classes'], 'validation class')} with {plural(counts['images'], 'image')}: too few to "
                "choose an epoch by; other epochs may be as good; add classes (`holdfast check` says what else helps)"
            )
    if evaluation.get("split") == "all":
        warnings.append(
            "there are no test images, and the figures are of the images that were trained on; put classes of their "
            "own into test/"
        )
    elif evaluation.get("split") == "val" and chosen is not None:
        warnings.append("there are no test images, and the figures are of the classes that the epoch was chosen by")
    before, after = finite(start.get(ON_TEST)), finite(block(evaluation, "metrics").get("R@1"))
    if before is not None and after is not None and after < before and not attacked:
        warnings.append(
            f"training lost: R@1 {before:.1f} → {after:.1f}, and {start['of']} had the former; train shorter or with "
            "a lower optimizer.lr, or use that model"
        )
    return {START: start, KEPT: kept, "warnings": warnings}


def outcome_lines(evaluation: Mapping[str, Any]) -> list[str]:
    """Before and after, which epoch was kept and why, in words; nothing of a run that did not measure them."""
    start, kept = block(evaluation, START), block(evaluation, KEPT)
    before, after = finite(start.get(ON_TEST)), finite(block(evaluation, "metrics").get("R@1"))
    lines = []
    if before is not None and after is not None:
        lines.append(f"R@1 {before:.1f} → {after:.1f} (before: {start.get('of')})")
    if (epoch := finite(kept.get("epoch"))) is not None:
        chosen, began = finite(kept.get("validation")), finite(start.get("validation"))
        figures = "" if chosen is None or began is None else f" ({began:.1f} → {chosen:.1f})"
        lines.append(f"kept: epoch {epoch:g}, {kept.get('why')}{figures}")
    return lines


def warning_lines(evaluation: Mapping[str, Any]) -> list[str]:
    """What the run warned of when it ended."""
    told = evaluation.get("warnings")
    return [line for line in told if isinstance(line, str)] if isinstance(told, list) else []
