"""Which recipe suits some images, a device and the weights at hand, for a `train` that names none."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import torch

from holdfast.data import ImageTable, load, spellings
from holdfast.errors import ModelError, RecipeError, plural
from holdfast.models.backbones import build_backbone, pool_by_gem
from holdfast.models.names import SMALL, SUFFIXES, TIMM, backbone_named, published_start
from holdfast.models.preprocessing import preprocessing_of
from holdfast.models.weights import require_weights
from holdfast.training.recipe import Recipe

SMALL_SIDE = 64
"""Shorter side in pixels up to which the small networks see all there is to see."""
SHRUNK = 3
"""How many times smaller than it is an image must be seen for a word about it."""
MANY_CLASSES, MANY_IMAGES = 50, 1000
"""Training classes and images from which all of a backbone learns better than a head alone."""
BATCH_CLASSES = 28
STARTS = ("init", "model.backbone")
"""Settings that say what to start from."""
FETCHED = "torchvision:mobilenet_v2"
PHOTOGRAPHS = "resnet50-ms-tuned"
"""The recipe that lets all of a backbone learn."""


@dataclasses.dataclass(frozen=True)
class RecipeChoice:
    """A recipe for some data.

    Args:
        recipe: its name.
        settings: what must be set for this data, as `--set` takes it.
        lines: what was chosen, and why.
    """

    recipe: str
    settings: tuple[str, ...]
    lines: tuple[str, ...]


def choose_recipe(data: str | dict[str, Any] | None, settings: Sequence[str], device: torch.device) -> RecipeChoice:
    """The recipe for some data.

    Args:
        data: as `train` takes it.
        settings: `key.path=value` of the user, which go first.
        device: where training will run.
    """
    if data is None:
        raise RecipeError(f"no dataset; pass --data {' or '.join(spellings())}")
    table = load(data)
    own = {setting.partition("=")[0].strip(): setting.partition("=")[2].strip() for setting in settings}
    train = table.split("train")
    classes, side = len(np.unique(train.labels)), shorter_side(table)
    batch = (f"batch.classes={max(2, min(BATCH_CLASSES, classes))}",)
    counts = f"{plural(len(table), 'image')} of {plural(len(np.unique(table.labels)), 'class')}"
    images = f"{counts}, {side:g} px along the shorter side"
    where = "a CPU" if device.type == "cpu" else f"a {device.type} device"
    if side <= SMALL_SIDE and not set(STARTS) & own.keys():
        reason = "they are small, so a small network learns from scratch, in minutes"
        return RecipeChoice("pocket", batch, (f"chosen: the recipe pocket for {images}, on {where}", reason))
    said = next((own[key] for key in STARTS if key in own), None)
    start: tuple[str, ...] = ()
    if said is None and (typed := own.get("model.weights")) is not None:
        said, start = typed, (f"model.backbone={_backbone_of(typed)}",)
    if said is None and (said := weights_at_hand(largest=device.type == "cuda")):
        start = (f"init={said}",)
    if said is None:
        raise RecipeError(
            "photographs need pretrained weights, and none are in torchvision's or timm's cache: give a file with "
            f"--init FILE, or let torchvision fetch one (14 MB) with --init {FETCHED}"
        )
    published, weights = published_start(said) or ("", "imagenet")
    if weights != "imagenet":
        require_weights(Path(weights), published)
    backbone = own.get("model.backbone") or published
    if not backbone:
        raise RecipeError(
            f"init: {said} does not name a backbone; write torchvision:NAME@FILE or timm:NAME@FILE, or name the recipe "
            f"with which to train a model on, such as {PHOTOGRAPHS}"
        )
    if device.type == "cuda" and classes >= MANY_CLASSES and len(train) >= MANY_IMAGES:
        more: tuple[str, ...] = ("data.validation=0.1", "test_curve=false")
        name, why = PHOTOGRAPHS, "a GPU and so many classes let all of the backbone learn, within an hour"
    else:
        name = "fitted-head"
        for_more = f"{'' if device.type == 'cuda' else 'a GPU and '}{MANY_CLASSES} training classes"
        why = (
            "its features are computed once, at a larger size than its own where images have it, and a head is fitted "
            f"to them, in minutes; with {for_more} all of it would learn"
        )
        more = _seen_larger(backbone, side) if _poolable(backbone) else ("model.pooling=null",)
    line = f"chosen: the recipe {name} from {_short(said)}, for {images}, on {where}"
    return RecipeChoice(name, (*start, *batch, *more), (line, why))


def _backbone_of(weights: str) -> str:
    """The backbone of a weights file that is named without one."""
    if found := published_start(weights):
        return found[0]
    raise RecipeError(
        f"model.weights: {weights} does not say of which backbone; add --set model.backbone=NAME, or give both with "
        "--init torchvision:NAME@FILE or timm:NAME@FILE"
    )


def _seen_larger(backbone: str, side: float) -> tuple[str, ...]:
    """A convolutional network finds more in images larger than those it learnt from, 288 px after 224.

    Reference: Berman et al., "MultiGrain", 2019, which goes with generalised-mean pooling there too.
    """
    own = preprocessing_of(backbone).view
    return (f"model.size={round(own.size * 9 / 7 / 32) * 32}",) if side >= own.canvas else ()


def _poolable(backbone: str) -> bool:
    """Whether a backbone's average can become a generalised mean."""
    module = build_backbone(backbone).module
    try:
        pool_by_gem(module)
    except ModelError:
        return False
    return True


def _short(start: str) -> str:
    """What a run starts from, without folders."""
    name, at, file = start.partition("@")
    return f"{name} ({Path(file).name})" if at else Path(name).name


def shorter_side(table: ImageTable) -> float:
    """Pixels along the shorter side of the median image, from a sample of the table."""
    return median([min(size) for size in table.sizes()] or [0.0])


def shrunk_line(recipe: Recipe, table: ImageTable) -> str | None:
    """A word on photographs that a small network sees as thumbnails; None where that is not so."""
    if recipe.model.backbone not in SMALL or table.name not in ("folder", "csv"):
        return None
    seen = preprocessing_of(recipe.model.backbone, recipe.model.size).view.canvas
    side = shorter_side(table)
    if side < SHRUNK * seen:
        return None
    place = recipe.data.plain.get("root") or recipe.data.plain.get("file")
    return (
        f"warning: these images have {side:g} px along the shorter side, and {recipe.model.backbone} sees them at "
        f"{seen}; for photographs leave the recipe out: holdfast train --data {table.name}:{place} --init FILE"
    )


def weights_at_hand(largest: bool = False) -> str | None:
    """A published backbone whose weights are in torchvision's or timm's cache, as `init` takes it; None without any.

    Args:
        largest: take the largest file in place of the smallest.
    """
    found = {}
    for file in Path(torch.hub.get_dir(), "checkpoints").glob("*"):
        if file.suffix in SUFFIXES and (name := backbone_named(file.name)):
            found[f"{name if ':' in name else TIMM + name}@{file}"] = file.stat().st_size
    from huggingface_hub.constants import HF_HUB_CACHE

    for folder in Path(HF_HUB_CACHE).glob("models--timm--*"):
        sizes = [file.stat().st_size for file in folder.glob("snapshots/*/model.safetensors")]
        if sizes:
            found[TIMM + folder.name.removeprefix("models--timm--")] = max(sizes)
    return (max if largest else min)(found, key=lambda start: found[start], default=None)
