"""What was trained, how, and on what: the recipe and the data card."""

from __future__ import annotations

from pathlib import PurePath
from typing import Any

import yaml

from holdfast.report import formatting as fmt
from holdfast.report.context import Absent, CollectContext, PageContext, Section
from holdfast.report.public import public_path, public_values, report_command, spec
from holdfast.run_files import batch_size, block, blocks, is_fitted
from holdfast.run_folder import RunFiles

CLASSES, EACH = 12, 4
"""Classes, and images of each, on the data card."""
DETAILS = {"name", "anchors", "variant", "part", "reduction", "norm", "method", "noise", "statistics", "start"}
"""Settings that a summary leaves to the full recipe."""
UNSAID: tuple[Any, ...] = (None, False, 0, [], {}, "", "pixel")
"""Values that it leaves out: nothing, and the units that lengths are in unless it says so."""
CARD: dict[str, type] = {"images": int, "classes": int, "per_class": dict, "splits": dict, "samples": list}
"""What a whole data card holds."""


def collect(context: CollectContext) -> dict[str, Any]:
    """Counts of the whole dataset, and images of a few classes of the evaluated split, drawn by seed."""
    import numpy as np
    import torch

    from holdfast.audit.sampling import few_classes
    from holdfast.data.table import SPLITS

    table, labels = context.table, context.store.table.labels
    counts = np.unique(table.labels, return_counts=True)[1]
    parts = {split: table.split(split) for split in SPLITS if table.has(split)}
    by_class: dict[int, list[int]] = {}
    for row in few_classes(torch.tensor(labels), CLASSES, EACH, context.seed).tolist():
        by_class.setdefault(int(labels[row]), []).append(row)
    names = {label: context.name_of(label) for label in by_class}
    return {
        "name": table.name,
        "images": len(table),
        "classes": len(counts),
        "per_class": {"least": int(counts.min()), "median": float(np.median(counts)), "most": int(counts.max())},
        "splits": {split: {"images": len(p), "classes": len(np.unique(p.labels))} for split, p in parts.items()},
        "samples": [
            {"label": names[label], "pictures": [context.images.of(context.store, row, names[label]) for row in rows]}
            for label, rows in by_class.items()
        ],
    }


def name_of(part: Any) -> str:
    """What a block of a recipe is called; a bare word is its own name."""
    return str(part.get("name", "")) if isinstance(part, dict) else str(part or "")


def _regime(files: RunFiles) -> str:
    """What the regime says of itself: as the evaluation kept it, or as the registered class does; else its name."""
    name, words = name_of(files.recipe.get("regime")), files.evaluation.get("regime")
    if not isinstance(words, str):
        from holdfast.regimes.base import registry  # needs torch; evaluations since 0.2 keep the words

        words = str(getattr(registry.get(name), "in_words", "")) if name in registry.names() else ""
    return fmt.short(words or f"with the regime {name}", 160)


def sentence(files: RunFiles) -> str:
    """What this is."""
    data = spec(files.data) if files.data else "unknown data"
    if not files.recipe:
        audited = files.main_audit or files.evaluation
        model = public_path(audited.get("model", "a model"))
        return f"How well {model} finds images of {data}, and how easily it is fooled."
    network, loss = block(files.recipe, "model"), name_of(files.recipe.get("loss"))
    learnt = f"trained on {data} with the {loss} loss, {_regime(files)}"
    if is_fitted(files.recipe):
        learnt = f"with a head fitted to {data} in closed form"
    numbers = f"{network['dim']} numbers" if network.get("dim") else "a vector"
    return f"A {network.get('backbone', 'small')} network that turns an image into {numbers}, {learnt}."


def show(context: PageContext) -> dict[str, Any]:
    """The recipe as a summary, and the data card."""
    files = context.files
    card, recipe, data = files.exhibits.get("data_card"), files.recipe, spec(files.data) if files.data else "data"
    if not recipe and not card:
        raise Absent("this folder holds an audit without a recipe or data card", report_command(files))
    title = f"{fmt.counted(recipe.get('epochs'), 'epoch')} on {data}, {_regime(files)}"
    if is_fitted(recipe):
        title = f"A head fitted to {data} in closed form"
    return {
        "title": title if recipe else f"Audited on {data}",
        "facts": _facts(recipe) if recipe else [],
        "yaml": _public_yaml(files),
        "data": spec(made["data"]) if (made := block(files.exhibits, "made")).get("data") else data,
        "card": _card(card, context) if isinstance(card, dict) else None,
        "no_card": _why(card, context),
    }


def _public_yaml(files: RunFiles) -> str:
    """The recipe as it is stored, but for the folders of paths."""
    shown = public_values(files.recipe)
    if shown == files.recipe:
        return files.recipe_text
    return str(yaml.safe_dump(shown, sort_keys=False, allow_unicode=True))


def _facts(recipe: dict[str, Any]) -> list[tuple[str, str]]:
    model, batch = block(recipe, "model"), block(recipe, "batch")
    size = batch_size(recipe)
    images = f" ({size} images)" if size else ""
    pairs = batch.get("sampler") == "pairs"
    made_of = f"{batch.get('classes')} " + ("pairs of a class" if pairs else f"classes × {batch.get('per_class')}")
    weights = f"{public_path(model['weights'])} weights" if model.get("weights") else "from scratch"
    if recipe.get("start"):
        weights = "starting from a run of its own, trained before"
    elif recipe.get("init"):
        weights = f"starting from the weights of ‘{fmt.short(PurePath(str(recipe['init'])).name)}’"
    dims = f"{model['dim']} dimensions" if model.get("dim") else "its own dimensions"
    facts = [("Network", f"{model.get('backbone')}, {dims}, {weights}")]
    facts += [(key.capitalize(), str(model.get(key) or "")) for key in ("pooling", "activation", "head")]
    if not is_fitted(recipe):
        facts += [
            ("Loss", _words(recipe.get("loss"))),
            ("Regime", _words(recipe.get("regime"))),
            ("Extras", "; ".join(map(_words, blocks(recipe, "extras")))),
            ("Batch", f"{made_of}{images}"),
            ("Augmentation", _words(recipe.get("augment"))),
            ("Optimiser", _words(recipe.get("optimizer"))),
            ("Schedule", f"{_words(recipe.get('schedule'))}, {fmt.counted(recipe.get('epochs'), 'epoch')}"),
        ]
    facts += [("Seed", str(recipe.get("seed")))]
    return [(name, text) for name, text in facts if text and not text.startswith("None")]


def _words(part: Any) -> str:
    """A block in one line: its name, then its settings, blocks inside in brackets."""
    if not isinstance(part, dict):
        return str(part or "")
    worth = {k: v for k, v in part.items() if k not in DETAILS and v not in UNSAID}
    settings = [f"{key.replace('_', ' ')} {_value(value)}" for key, value in worth.items()]
    name = name_of(part)
    return f"{name} ({', '.join(settings)})" if name and settings else name or ", ".join(settings)


def _value(value: Any) -> str:
    if isinstance(value, dict):
        return _words(value)
    if isinstance(value, list):
        return (" + " if any(isinstance(item, dict) for item in value) else " / ").join(_value(item) for item in value)
    if isinstance(value, float):
        return fmt.setting(value)
    return "yes" if value is True else public_path(value)


def _card(card: dict[str, Any], context: PageContext) -> dict[str, Any]:
    splits = block(card, "splits")
    samples = [
        {"label": sample.get("label", ""), "images": [context.images.tag(i) for i in blocks(sample, "pictures")]}
        for sample in blocks(card, "samples")
    ]
    return {
        **card,
        "per_class": {key: fmt.count(block(card, "per_class").get(key)) for key in ("least", "median", "most")},
        "splits": {name: block(splits, name) for name in splits},
        "samples": [s for s in samples if any(s["images"])] if context.images.shown else samples,
    }


def _why(card: Any, context: PageContext) -> Absent | None:
    """Why the data card, or a part of it, is not there."""
    try:
        context.exhibit("data_card")
    except Absent as absent:
        return absent
    stored = card if isinstance(card, dict) else {}
    lacking = [name for name, kind in CARD.items() if not isinstance(stored.get(name), kind) or not stored[name]]
    why = f"{', '.join(lacking).replace('_', ' ')} not recorded"
    return Absent(why, report_command(context.files, "--refresh")) if lacking else None


SECTION = Section("trained", "Training", show, {"data_card": collect})
