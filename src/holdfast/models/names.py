"""Names of backbones: ours, those of timm and torchvision, and what was meant by a name that nobody has."""

from __future__ import annotations

import difflib
import importlib
from pathlib import Path
from typing import Any

import torch

from holdfast.errors import ModelError

SMALL = {"conv-small": 32, "conv-tiny": 32, "mnist-plane": 28}
"""Our own networks and the size of the images they take."""
TIMM, TORCHVISION = "timm:", "torchvision:"
"""What the names of published backbones begin with; a recipe may leave the first out."""
SUFFIXES = (".safetensors", ".pth", ".pt", ".bin")
"""Of weights files."""
NEAR = 0.75
"""How alike names must be, as difflib counts it, for one to be meant by the other."""


def is_user_code(backbone: str) -> bool:
    """Whether building this backbone would run code outside holdfast, timm and torchvision."""
    return ":" in backbone and not backbone.startswith((TIMM, TORCHVISION))


def published_start(spec: Any) -> tuple[str, str] | None:
    """Backbone and weights of `timm:NAME`, `torchvision:NAME` or either with `@FILE`; None of anything else.

    Without a file the weights are those that the library publishes, `imagenet`. A file by itself is of the backbone
    that its name begins with, as torchvision names its own: `mobilenet_v2-b0353104.pth`.
    """
    if not isinstance(spec, str):
        return None
    if Path(spec).suffix in SUFFIXES and ":" not in spec:
        named = backbone_named(Path(spec).name)
        return (named, spec) if named else None
    if not spec.startswith((TIMM, TORCHVISION)):
        return None
    name, at, file = spec.partition("@")
    return name.removeprefix(TIMM), file if at else "imagenet"


def backbone_named(file: str) -> str | None:
    """The backbone with whose name a file's name begins, the longest of several; torchvision's before timm's."""
    ensure_torchvision()
    import timm
    from torchvision import models

    for prefix, known in ((TORCHVISION, models.list_models()), ("", timm.list_models())):
        names = [name for name in known if file.startswith(name) and not file[len(name) :][:1].isalnum()]
        if names:
            return prefix + max(names, key=len)
    return None


def did_you_mean(name: str) -> str | None:
    """The nearest names, as they can be given everywhere; None if none is near.

    The same name in any library goes first, then a near one in the library that was named, then in any.
    """
    ensure_torchvision()
    import timm
    from torchvision import models

    bare = name.removeprefix(TIMM).removeprefix(TORCHVISION).partition(".")[0].lower()
    libraries = {TIMM: timm.list_models(), TORCHVISION: models.list_models(), "": list(SMALL)}
    every = [own for names in libraries.values() for own in names]
    named = next((library for library in (TIMM, TORCHVISION) if name.startswith(library)), None)
    searches = ((every, 1.0), (libraries[named] if named else every, NEAR), (every, NEAR))
    found = (difflib.get_close_matches(bare, names, n=1, cutoff=cutoff) for names, cutoff in searches)
    nearest = next((names[0] for names in found if names), None)
    there = [library for library, names in libraries.items() if nearest in names]
    meant = [f"'{library}{nearest}'" for library in ([named] if named in there else there)]
    return f"did you mean {' or '.join(meant)}?" if meant else None


def unknown_backbone(name: str) -> ModelError:
    """One line on a name that no library has."""
    return ModelError(f"unknown backbone '{name}'; {did_you_mean(name) or 'see `holdfast list backbones`'}")


_libraries: list[Any] = []  # a schema lives as long as the library object that defined it


def ensure_torchvision() -> None:
    """Make `import torchvision` (and so `import timm`) work; call it before either."""
    try:
        importlib.import_module("torchvision")
    except RuntimeError as error:
        if "torchvision::" not in str(error):
            raise
        library: Any = torch.library.Library("torchvision", "DEF")  # type: ignore[no-untyped-call]
        for name in ("nms", "qnms"):
            library.define(f"{name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
        _libraries.append(library)
        importlib.import_module("torchvision")
