"""The model card that goes with a packaged model: a Markdown page with a header that the Hugging Face Hub reads.

Everything that comes from a file may be a stranger's: it goes through `said` before it stands in the page.
"""

from __future__ import annotations

import functools
import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from importlib.resources import files
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any, TypeAlias

from holdfast.console import figure
from holdfast.errors import ModelError, reason
from holdfast.files import inside, write_atomic
from holdfast.metric_info import percentage, stored
from holdfast.robustness import NATURAL, ROBUST, doubts, robustness
from holdfast.run_files import (
    batch_size,
    eps_words,
    finite,
    is_fitted,
    outcome_lines,
    passes_per_step,
    steps,
    training_seconds,
    warning_lines,
)
from holdfast.run_folder import DAMAGED, read_run
from holdfast.version import __version__

if TYPE_CHECKING:
    from huggingface_hub import EvalResult

Document: TypeAlias = Mapping[str, Any]
"""Plain data, as JSON or YAML holds it."""

CARD = "README.md"
LIBRARY = "holdfast"
TASK = "image-feature-extraction"
TAGS = ("image-retrieval", "metric-learning")

TEMPLATE = files("holdfast.models").joinpath("card.md").read_text(encoding="utf-8")

MARK = "<!-- written by holdfast; a refresh leaves a card alone that was edited by hand. "
OLD_PERCENTAGES = ("R@1", "R@2", "R@4", "R@8", "R@10", "R@100", "mAP", "mAP@R", "mAP@C", "NMI", "NMI+")
"""Shown of an evaluation of before 0.2, which does not describe its figures."""
LONGEST = 300

_SPECIAL = str.maketrans({"\\": "\\\\", "|": "\\|", "<": "&lt;", "[": "\\[", "]": "\\]", "`": "'", "*": "\\*"})


def card_text(
    recipe: Document,
    evaluation: Document | None = None,
    audits: Sequence[Document] = (),
    log: Sequence[Document] = (),
    *,
    license: str | None = None,
    title: str | None = None,
) -> str:
    """The card of a trained model.

    Args:
        recipe: plain data of its resolved recipe.
        evaluation: what evaluation.json holds, if it was measured; `metrics` and `split` at least.
        audits: documents of its audits.
        log: lines of metrics.jsonl, for what training cost.
        license: identifier of its licence; the card says that none is stated when left out.
        title: heading; from loss and data when left out.
    """
    from huggingface_hub import ModelCardData

    evaluation = evaluation or {}
    learnt = "fitted head" if is_fitted(recipe) else said(recipe["loss"]["name"])
    title = heading(title or f"{learnt} on {data_name(recipe['data'])}")
    found = results(evaluation, audits)
    header = ModelCardData(
        library_name=LIBRARY,
        pipeline_tag=TASK,
        tags=[*TAGS],
        license=license,
        model_name=title if found else None,
        eval_results=found or None,
    )
    count, splits = evaluation.get("images"), evaluation.get("splits", {}).items()
    text = _template().render(
        card_data=header.to_yaml(),
        title=title,
        version=__version__,
        unit_length=recipe["model"].get("normalize", True),
        view=said(evaluation.get("view") or ""),
        data=data_name(recipe["data"]),
        splits=[(said(name), said(part.get("images")), said(part.get("classes"))) for name, part in splits],
        training=training_rows(recipe, evaluation, log),
        metrics=metric_rows(evaluation),
        outcome=[said(line) for line in outcome_lines(evaluation)],
        warnings=[said(line) for line in warning_lines(evaluation)],
        images=f"{count:,} images of " if count else "",
        split=said(evaluation.get("split")),
        audits=[audit_section(audit) for audit in audits],
        license=license,
    )
    return f"{text.rstrip()}\n\n{MARK}{_digest(text)} -->\n"


@functools.cache
def _template() -> Any:
    """Compiled once: a run writes several cards."""
    import jinja2

    return jinja2.Template(TEMPLATE)


def heading(title: str) -> str:
    """A title as a heading can hold it; the same when it is read back and written again."""
    return " ".join(title.split())[:120].replace("<", "&lt;")


def untouched(text: str) -> bool:
    """Whether a card still is as `card_text` wrote it."""
    body, mark, rest = text.rpartition(f"\n\n{MARK}")
    return bool(mark) and rest.strip() == f"{_digest(body)} -->"


def _digest(text: str) -> str:
    return hashlib.sha256(text.strip().replace("\r\n", "\n").encode()).hexdigest()[:16]


def said(value: Any) -> str:
    """A value as plain text of one line, whatever Markdown or HTML it holds."""
    text = " ".join(figure(value).split())[:LONGEST].translate(_SPECIAL)
    return text.encode("utf-8", "replace").decode()  # JSON can hold half a character, which no file can


def data_name(data: Any) -> str:
    """`glyphs`, or `folder (photos)`: the last part of a path only, which is the author's business."""
    block = data if isinstance(data, Mapping) else {"name": data}
    place = next((PurePath(str(block[key])).name for key in ("root", "file") if block.get(key)), "")
    return said(f"{block.get('name', 'unknown')} ({place})" if place else block.get("name", "unknown"))


def training_rows(recipe: Document, evaluation: Document, log: Sequence[Document]) -> list[tuple[str, str]]:
    """How it was trained and what that cost."""
    model, batch, optimizer = recipe["model"], recipe.get("batch", {}), recipe.get("optimizer", {})
    weights = "a run of its own, trained before" if recipe.get("start") else model.get("weights") or recipe.get("init")
    pairs = batch.get("sampler") == "pairs"
    per_batch = f"{batch.get('classes')} " + ("pairs" if pairs else f"classes of {batch.get('per_class')} images")
    rows = [
        ("backbone", model.get("backbone")),
        ("dims", model.get("dim") or "those of the backbone"),
        ("start", PurePath(str(weights)).name if weights else "random weights"),
        ("pooling", model.get("pooling")),
        ("activation", model.get("activation")),
        ("head", model.get("head")),
    ]
    if not is_fitted(recipe):
        rows += [
            ("loss", json.dumps(recipe["loss"])),
            ("regime", json.dumps(recipe.get("regime", "standard"))),
            ("extras", ", ".join(extra["name"] for extra in recipe.get("extras") or [])),
            ("batch", per_batch),
            ("optimiser", f"{optimizer.get('name')}, learning rate {optimizer.get('lr')}"),
            ("epochs", recipe.get("epochs")),
        ]
    rows += [
        ("seed", recipe.get("seed")),
        ("recipe", evaluation.get("recipe")),
        ("cost", training_cost(recipe, log)),
        ("made with", ", ".join(f"{name} {v}" for name, v in (evaluation.get("versions") or {}).items())),
    ]
    return [(key, said(value)) for key, value in rows if value not in (None, "")]


def training_cost(recipe: Document, log: Sequence[Document]) -> str | None:
    """Steps, passes per step and time, from the log lines of training steps."""
    batch = batch_size(recipe)
    taken = [step for step, line in steps(log) if line.get("images_per_second")]
    if not taken or not batch:
        return None
    seconds = training_seconds(log, batch)
    if seconds is None:
        raise ValueError("metrics.jsonl counts no step")
    return f"{max(taken):,.0f} steps, {passes_per_step(log) or 1:.1f} passes a step, {seconds / 60:.1f} minutes"


def metric_rows(evaluation: Document) -> list[tuple[str, str]]:
    """The metrics that comparisons have, and every percentage."""
    values, described = evaluation.get("metrics", {}), stored(evaluation)
    on_page = {key for key, info in described.items() if info.percent and info.shown == "page" and "/" not in key}
    told = {key: info for key, info in described.items() if info.compared or key in on_page}
    shown = told or {key: percentage("") for key in OLD_PERCENTAGES}
    measured = {key: values[key] for key in shown if values.get(key) is not None}
    if wrong := [key for key, value in measured.items() if finite(value) is None]:
        raise ValueError(f"{said(wrong[0])} is no number")
    return [(said(key), f"{value:.{shown[key].digits}f}") for key, value in measured.items()]


def audit_section(audit: Document) -> dict[str, Any]:
    """Title, setting, figures and flags of one audit."""
    budget, intervals, worst = audit["budget"], audit.get("intervals", {}), robustness(audit)
    images, bound = "attacked images", "no pixel changed by more than"
    if audit["protocol"] == "natural":
        images, bound = "images", "everyday damage; eps"
    subset = " (a first look)" if audit.get("quick") else " (a subset)" if audit.get("limit") else ""
    return {
        "title": said(f"{audit['protocol']} ({audit['mode']})"),
        "setting": (
            f"{audit['images']:,} {images}{subset} of the {said(audit.get('split'))} split of "
            f"{data_name(audit['data'])} against a gallery of {audit['gallery']:,}; {bound} "
            f"{eps_words(budget)}, {said(budget['steps'])} steps, seed "
            f"{said(audit.get('seed'))}."
        ),
        "worst": said(f"{'Reported: ' if worst.doubted else ''}{worst}.".capitalize()) if worst else "",
        "doubts": [said(why) for why in doubts(audit)],
        "rows": [
            (said(key), said(value), " to ".join(said(end) for end in intervals.get(key) or ()))
            for key, value in audit["metrics"].items()
        ],
        "flags": [
            said(f"{flag['level']} {flag['name']}: {flag['why']}. {flag['advice']}") for flag in audit.get("flags", [])
        ],
    }


def results(evaluation: Document, audits: Sequence[Document]) -> list[EvalResult]:
    """Headline figures as the Hub's model index has them."""
    from huggingface_hub import EvalResult

    def entry(document: Document, key: str, name: str) -> EvalResult:
        data = data_name(document["data"])
        return EvalResult(
            task_type=TASK,
            dataset_type=data,
            dataset_name=data,
            dataset_split=said(document.get("split")),
            metric_type=key,
            metric_name=name,
            metric_value=round(float(document["metrics"][key]), 2),
        )

    headlines = [key for key in ("R@1", "mAP@R") if "data" in evaluation and evaluation["metrics"].get(key) is not None]
    found = [entry(evaluation, key, key) for key in headlines]
    for audit in audits:
        if doubts(audit):  # the Hub shows a figure without the reason not to trust it
            continue
        told, budget = audit.get("robust") or {}, audit.get("budget") or {}
        strengths = {ROBUST: told.get("eps"), "ERS": budget.get("eps_pixel"), NATURAL: None}
        for key, eps in strengths.items():
            words = "" if eps is None else f", eps {255 * float(eps):.3g}/255"
            name = said(f"{key} ({audit['mode']}{words})")
            if audit["metrics"].get(key) is not None and name not in {result.metric_name for result in found}:
                found.append(entry(audit, key, name))
    return found


def write_card(
    run: str | Path,
    *,
    license: str | None = None,
    title: str | None = None,
    force: bool = False,
    evaluation: Document | None = None,
) -> Path:
    """Write the model card of a run from its recipe.yaml, evaluation.json, audits and metrics.jsonl.

    Licence and title stay as the card has them unless given here. A card that was edited by hand is left alone.

    Args:
        run: the run folder; the card goes into its `model/`.
        license: Hub identifier of the model's licence, such as `apache-2.0`.
        title: heading of the card.
        force: write over a card that was edited by hand.
        evaluation: in place of the run's evaluation.json, which may not be written yet.
    """
    folder = Path(run)
    package = folder / "model"
    if not (folder / "recipe.yaml").is_file() or not package.is_dir():
        raise ModelError(f"{folder} is no run with a packaged model; train one with `holdfast train`")
    if license is not None and not re.fullmatch(r"[a-z0-9][a-z0-9.+-]{0,63}", license):
        raise ModelError(f"'{license}' is no licence identifier; use one of the Hub's, such as apache-2.0 or mit")
    file = inside(folder, package) / CARD
    before = file.read_text("utf-8", errors="replace") if file.is_file() else None
    if before is not None and not force and not untouched(before):
        raise ModelError(f"{file} was edited by hand and stays as it is; `holdfast card {folder} --force` replaces it")
    kept, found = _kept(before), read_run(folder)
    damaged = [name for name in found.damaged if not name.startswith("exhibits")]
    try:
        if damaged:
            raise ValueError(", ".join(damaged))
        text = card_text(
            found.recipe,
            evaluation or found.evaluation,
            list(found.current_audits.values()),
            found.log,
            license=license or kept.get("license"),
            title=title or kept.get("title"),
        )
    except DAMAGED as error:
        raise ModelError(f"the files of {folder} are damaged, so no card can be written ({reason(error)})") from error
    write_atomic(file, text)
    return file


def _kept(card: str | None) -> dict[str, str]:
    """Licence and title of a card that is there."""
    found = re.fullmatch(r"---\r?\n(.*?)\r?\n---\r?\n(.*)", card or "", re.DOTALL)
    if not found:
        return {}
    heading = re.search(r"^# (.+)$", found[2], re.MULTILINE)
    licence = re.search(r"^license: ['\"]?([a-z0-9.+-]+)['\"]?$", found[1], re.MULTILINE)
    return {key: match[1] for key, match in (("title", heading), ("license", licence)) if match}
