"""How easily an embedding is fooled."""

from holdfast.audit.base import Protocol, register, registry
from holdfast.audit.runner import Audit, run
from holdfast.audit.score import ers_score
from holdfast.config import builder

build, names = builder(registry), registry.names

__all__ = ["Audit", "Protocol", "build", "ers_score", "names", "register", "registry", "run"]
