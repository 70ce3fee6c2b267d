"""holdfast trains, attacks and audits image embeddings.

The names below are imported when first used, so that `import holdfast` stays light.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from holdfast.version import __version__

if TYPE_CHECKING:
    from holdfast import attacks, audit, console, data, gradients, losses, metrics, mining, models, processes, regimes
    from holdfast import search as search
    from holdfast.attacks import Budget, attack, gallery
    from holdfast.errors import HoldfastError
    from holdfast.evaluation import evaluate
    from holdfast.models import Embedder
    from holdfast.training import train

__all__ = ["Budget", "Embedder", "HoldfastError", "__version__", "attack", "evaluate", "gallery", "train"]
__all__ += ["attacks", "audit", "console", "data", "gradients", "losses", "metrics", "mining", "models"]
__all__ += ["processes", "regimes", "search"]

_HOMES = {
    "Budget": "holdfast.attacks",
    "Embedder": "holdfast.models",
    "HoldfastError": "holdfast.errors",
    "attack": "holdfast.attacks",
    "evaluate": "holdfast.evaluation",
    "gallery": "holdfast.attacks",
    "train": "holdfast.training",
}


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(importlib.import_module(_HOMES[name]), name)
    if name in __all__:
        return importlib.import_module(f"holdfast.{name}")
    raise AttributeError(f"module 'holdfast' has no attribute '{name}'")


def __dir__() -> list[str]:
    return __all__
