"""What a batch of embeddings costs."""

from holdfast.losses.base import Loss, register, registry

build, names = registry.build, registry.names

__all__ = ["Loss", "build", "names", "register"]
