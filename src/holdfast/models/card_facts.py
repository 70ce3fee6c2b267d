"""What a model card says, taken from a run's recipe, evaluation, audits and log.

Everything that comes from a file may be a stranger's: it goes through `said` before it stands in the page.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import PurePath
from typing import TYPE_CHECKING, Any

from holdfast.console import figure
from holdfast.run_files import batch_size, passes_per_step, steps, training_seconds

if TYPE_CHECKING:
    from huggingface_hub import EvalResult

HEADLINES = ("R@1", "R@2", "R@4", "R@8", "R@10", "R@100", "mAP", "mAP@R", "mAP@C", "NMI", "NMI+")
LONGEST = 300

_SPECIAL = str.maketrans({"\\": "\\\\", "|": "\\|", "<": "&lt;", "[": "\\[", "]": "\\]", "`": "'", "*": "\\*"})


def said(value: Any) -> str:
    """A value as plain text of one line, whatever Markdown or HTML it holds."""
    text = " ".join(figure(value).split())[:LONGEST].translate(_SPECIAL)
    return text.encode("utf-8", "replace").decode()  # JSON can hold half a character, which no file can


def data_name(data: Any) -> str:
    """`glyphs`, or `folder (photos)`: the last part of a path only, which is the author's business."""
    block = data if isinstance(data, Mapping) else {"name": data}
    place = next((PurePath(str(block[key])).name for key in ("root", "file") if block.get(key)), "")
    return said(f"{block.get('name', 'unknown')} ({place})" if place else block.get("name", "unknown"))


def data_rows(evaluation: Mapping[str, Any] | None) -> list[tuple[str, str, str]]:
    """Images and classes of each split."""
    splits = (evaluation or {}).get("splits", {})
    return [(said(name), said(counts.get("images")), said(counts.get("classes"))) for name, counts in splits.items()]


def training_rows(
    recipe: Mapping[str, Any], evaluation: Mapping[str, Any] | None, log: Sequence[Mapping[str, Any]]
) -> list[tuple[str, str]]:
    """How it was trained and what that cost."""
    model, batch, optimizer = recipe["model"], recipe.get("batch", {}), recipe.get("optimizer", {})
    weights = model.get("weights") or recipe.get("init")
    pairs = batch.get("sampler") == "pairs"
    per_batch = f"{batch.get('classes')} " + ("pairs" if pairs else f"classes of {batch.get('per_class')} images")
    rows = [
        ("backbone", model.get("backbone")),
        ("dims", model.get("dim") or "those of the backbone"),
        ("start", PurePath(str(weights)).name if weights else "random weights"),
        ("loss", json.dumps(recipe["loss"])),
        ("regime", json.dumps(recipe.get("regime", "standard"))),
        ("batch", per_batch),
        ("optimiser", f"{optimizer.get('name')}, learning rate {optimizer.get('lr')}"),
        ("epochs", recipe.get("epochs")),
        ("seed", recipe.get("seed")),
        ("recipe", (evaluation or {}).get("recipe")),
        ("cost", training_cost(recipe, log)),
        ("made with", ", ".join(f"{name} {v}" for name, v in ((evaluation or {}).get("versions") or {}).items())),
    ]
    return [(key, said(value)) for key, value in rows if value not in (None, "")]


def training_cost(recipe: Mapping[str, Any], log: Sequence[Mapping[str, Any]]) -> str | None:
    """Steps, passes per step and time, from the log lines of training steps."""
    batch = batch_size(recipe)
    taken = [step for step, line in steps(log) if line.get("images_per_second")]
    if not taken or not batch:
        return None
    seconds = training_seconds(log, batch)
    if seconds is None:
        raise ValueError("metrics.jsonl counts no step")
    return f"{max(taken):,.0f} steps, {passes_per_step(log) or 1:.1f} passes a step, {seconds / 60:.1f} minutes"


def metric_rows(evaluation: Mapping[str, Any] | None) -> list[tuple[str, str]]:
    """Headline metrics."""
    values = (evaluation or {}).get("metrics", {})
    return [(key, f"{values[key]:.1f}") for key in HEADLINES if values.get(key) is not None]


def audit_section(audit: Mapping[str, Any]) -> dict[str, Any]:
    """Title, setting, figures and flags of one audit."""
    budget, intervals = audit["budget"], audit.get("intervals", {})
    subset = " (a subset)" if audit.get("limit") else ""
    eps, normalised = float(budget["eps_pixel"]), float(budget["eps_normalized"])
    return {
        "title": said(f"{audit['protocol']} ({audit['mode']})"),
        "setting": (
            f"{audit['images']:,} attacked images{subset} of the {said(audit.get('split'))} split of "
            f"{data_name(audit['data'])} against a gallery of {audit['gallery']:,}; no pixel changed by more than "
            f"{255 * eps:.3g}/255 ({normalised:.3g} normalised), {said(budget['steps'])} steps, seed "
            f"{said(audit.get('seed'))}."
        ),
        "rows": [
            (said(key), said(value), " to ".join(said(end) for end in intervals.get(key) or ()))
            for key, value in audit["metrics"].items()
        ],
        "flags": [
            said(f"{flag['level']} {flag['name']}: {flag['why']}. {flag['advice']}") for flag in audit.get("flags", [])
        ],
    }


def results(evaluation: Mapping[str, Any] | None, audits: Sequence[Mapping[str, Any]]) -> list[EvalResult]:
    """Headline figures as the Hub's model index has them."""
    from huggingface_hub import EvalResult

    def entry(document: Mapping[str, Any], key: str, name: str) -> EvalResult:
        data = data_name(document["data"])
        return EvalResult(
            task_type="image-feature-extraction",
            dataset_type=data,
            dataset_name=data,
            dataset_split=said(document.get("split")),
            metric_type=key,
            metric_name=name,
            metric_value=round(float(document["metrics"][key]), 2),
        )

    found = []
    if evaluation and "data" in evaluation:
        found = [entry(evaluation, key, key) for key in ("R@1", "mAP@R") if evaluation["metrics"].get(key) is not None]
    for audit in audits:
        if audit["metrics"].get("ERS") is not None:
            eps = f"{255 * float(audit['budget']['eps_pixel']):.3g}/255"
            found.append(entry(audit, "ERS", said(f"ERS ({audit['mode']}, eps {eps})")))
    return found
