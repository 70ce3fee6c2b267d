"""What a batch of embeddings costs."""

from holdfast.config import builder
from holdfast.losses.base import Loss, register, registry

build, names = builder(registry), registry.names

__all__ = ["Loss", "build", "names", "register"]
