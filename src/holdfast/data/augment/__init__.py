"""What training sees of the stored images: batched crops and flips on the device."""

from holdfast.config import builder
from holdfast.data.augment.base import Augment, Draws, centre_crop, register, registry

build, names = builder(registry), registry.names

__all__ = ["Augment", "Draws", "build", "centre_crop", "names", "register"]
