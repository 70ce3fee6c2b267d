"""How easily an embedding is fooled.

What needs torch is imported when first used: pages take the terms of ERS from here without it.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from holdfast.audit.base import Part, Protocol, register, registry
from holdfast.audit.cut import Cut
from holdfast.audit.ers import Ers, ers_score
from holdfast.config import builder

if TYPE_CHECKING:
    from holdfast.audit.adml import Adml
    from holdfast.audit.ensemble import Ensemble
    from holdfast.audit.figures import Figures
    from holdfast.audit.natural import Natural
    from holdfast.audit.preparation import Execution
    from holdfast.audit.runner import Audit, run
    from holdfast.audit.stax import Stax
    from holdfast.audit.subject import Subject
    from holdfast.audit.thorough import Thorough

build, names = builder(registry), registry.names

_MODULES = {"Audit": "runner", "Execution": "preparation", "run": "runner"}
_MODULES |= {name: name.lower() for name in ("Adml", "Ensemble", "Figures", "Natural", "Stax", "Subject", "Thorough")}

__all__ = ["Audit", "Cut", "Ensemble", "Execution", "Figures", "Part", "Protocol", "Subject"]
__all__ += ["Adml", "Ers", "Natural", "Stax", "Thorough", "build", "ers_score", "names", "register", "registry", "run"]


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return getattr(importlib.import_module(f"holdfast.audit.{_MODULES[name]}"), name)
    raise AttributeError(f"module 'holdfast.audit' has no attribute '{name}'")
