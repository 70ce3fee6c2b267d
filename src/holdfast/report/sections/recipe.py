"""What was trained, and how."""

from __future__ import annotations

from pathlib import PurePath
from typing import Any

import yaml

from holdfast.report import formatting as fmt
from holdfast.report.sections.base import Absent, Section, Source
from holdfast.report.sections.public import public_path, public_values, report_command
from holdfast.run_files import finite
from holdfast.run_folder import RunFolder

DETAILS = {"name", "anchors", "variant", "part", "reduction", "norm", "method", "units", "noise", "statistics", "start"}
"""Settings that a summary leaves to the full recipe."""
CARD: dict[str, type] = {"images": int, "classes": int, "per_class": dict, "splits": dict, "samples": list}
"""What a whole data card holds."""


def block(document: Any, key: str) -> dict[str, Any]:
    """A dictionary inside a dictionary; empty where it is missing."""
    inner = document.get(key) if isinstance(document, dict) else None
    return inner if isinstance(inner, dict) else {}


def described(count: int, noun: str) -> str:
    """`1 reason`, `3 reasons`."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def name_of(part: Any) -> str:
    """What a block of a recipe is called; a bare word is its own name."""
    return str(part.get("name", "")) if isinstance(part, dict) else str(part or "")


def described_regime(files: RunFolder) -> str:
    """What a regime says of itself, as training wrote it down; empty for a run of before, or one that goes on."""
    words = files.evaluation.get("regime")
    return words if isinstance(words, str) else ""


def sentence(files: RunFolder) -> str:
    """What this is."""
    data = files.data.get("name", "unknown data")
    recipe = files.recipe
    if not recipe:
        audited = files.audit or next(iter(files.audits.values()), files.evaluation)
        model = public_path(audited.get("model", "a model"))
        return f"How well {model} finds pictures of {public_path(data)}, and how easily it is fooled."
    regime = name_of(recipe.get("regime"))
    network = block(recipe, "model")
    how = described_regime(files) or f"with the regime {regime}"
    return (
        f"A {network.get('backbone', 'small')} network that turns a picture into {network.get('dim', 'a few')} "
        f"numbers, trained on {data} with the {name_of(recipe.get('loss'))} loss, {how}."
    )


def trained(source: Source) -> Section:
    """The recipe as a summary, and the data card."""
    files = source.files
    card = files.exhibits.get("data_card")
    if not files.recipe and not card:
        raise Absent("this folder holds an audit without a recipe or data card", report_command(files))
    epochs, regime = files.recipe.get("epochs"), name_of(files.recipe.get("regime"))
    if files.recipe:
        title = f"{fmt.count(epochs)} epochs of {files.data.get('name', 'data')}, {described_regime(files) or regime}"
    else:
        title = f"Audited on {files.data.get('name', 'data')}"
    content = {
        "facts": _facts(files.recipe) if files.recipe else [],
        "yaml": _public_yaml(files),
        "card": _card(card, source) if isinstance(card, dict) else None,
        "no_card": _why(card, source),
    }
    return Section(title, content)


def _public_yaml(files: RunFolder) -> str:
    """The recipe as it is stored, but for the folders of paths."""
    shown = public_values(files.recipe)
    if shown == files.recipe:
        return files.recipe_text
    return str(yaml.safe_dump(shown, sort_keys=False, allow_unicode=True))


def _facts(recipe: dict[str, Any]) -> list[tuple[str, str]]:
    model, batch = block(recipe, "model"), block(recipe, "batch")
    size = [finite(batch.get(key)) for key in ("classes", "per_class")]
    images = f" ({size[0] * size[1]:.0f} pictures)" if size[0] and size[1] else ""
    pairs = batch.get("sampler") == "pairs"
    made_of = f"{batch.get('classes')} " + ("pairs of a class" if pairs else f"classes × {batch.get('per_class')}")
    weights = f"{public_path(model['weights'])} weights" if model.get("weights") else "from scratch"
    if recipe.get("init"):
        weights = f"starting from the weights of ‘{fmt.short(PurePath(str(recipe['init'])).name)}’"
    facts = [
        ("Network", f"{model.get('backbone')}, {model.get('dim')} dimensions, {weights}"),
        ("Loss", _words(recipe.get("loss"))),
        ("Regime", _words(recipe.get("regime"))),
        ("Batch", f"{made_of}{images}"),
        ("Augmentation", _words(recipe.get("augment"))),
        ("Optimiser", _words(recipe.get("optimizer"))),
        ("Schedule", f"{_words(recipe.get('schedule'))}, {recipe.get('epochs')} epochs"),
        ("Seed", str(recipe.get("seed"))),
    ]
    return [(name, text) for name, text in facts if text and not text.startswith("None")]


def _words(part: Any) -> str:
    """A block in one line: its name, then its settings, blocks inside in brackets."""
    if not isinstance(part, dict):
        return str(part or "")
    settings = [f"{key.replace('_', ' ')} {_value(value)}" for key, value in part.items() if _worth(key, value)]
    name = name_of(part)
    return f"{name} ({', '.join(settings)})" if name and settings else name or ", ".join(settings)


def _worth(key: str, value: Any) -> bool:
    return key not in DETAILS and value is not None and value is not False and value not in (0, [], {}, "")


def _value(value: Any) -> str:
    if isinstance(value, dict):
        return _words(value)
    if isinstance(value, list):
        return (" + " if any(isinstance(item, dict) for item in value) else " / ").join(_value(item) for item in value)
    if isinstance(value, float):
        return fmt.eps(value) if 0 < value < 0.2 and _is_eighth_bit(value) else f"{value:g}"
    return "yes" if value is True else public_path(value)


def _is_eighth_bit(value: float) -> bool:
    """Whether a number is a whole number of grey levels, such as 8/255."""
    return abs(255 * value - round(255 * value)) < 1e-6


def _card(card: dict[str, Any], source: Source) -> dict[str, Any]:
    per_class, splits = block(card, "per_class"), block(card, "splits")
    samples = [
        {"label": sample.get("label", ""), "pictures": [source.pictures.tag(p) for p in _list(sample.get("pictures"))]}
        for sample in _list(card.get("samples"))
        if isinstance(sample, dict)
    ]
    return {
        "name": card.get("name"),
        "images": card.get("images"),
        "classes": card.get("classes"),
        "per_class": _range(per_class),
        "splits": [(name, block(splits, name).get("images"), block(splits, name).get("classes")) for name in splits],
        "samples": [s for s in samples if any(s["pictures"])] if source.pictures.shown else samples,
    }


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _range(per_class: dict[str, Any]) -> str:
    if not per_class:
        return fmt.NONE
    least, median, most = (fmt.count(per_class.get(key)) for key in ("least", "median", "most"))
    return f"{most} pictures" if least == most else f"{least} to {most}, median {median}"


def _why(card: Any, source: Source) -> dict[str, str]:
    """Why the data card, or a part of it, is not there."""
    try:
        source.exhibit("data_card")
    except Absent as absent:
        return {"why": absent.why, "command": absent.command}
    stored = card if isinstance(card, dict) else {}
    lacking = [name for name, kind in CARD.items() if not isinstance(stored.get(name), kind) or not stored[name]]
    if not lacking:
        return {"why": "", "command": ""}
    return {
        "why": f"{', '.join(lacking).replace('_', ' ')} not recorded",
        "command": report_command(source.files, "--refresh"),
    }
