"""Which tuples of a batch learn."""

from holdfast.config import builder
from holdfast.mining.base import Miner, register, registry
from holdfast.mining.tuples import Pairs, Triplets, Tuples

build, names = builder(registry), registry.names

__all__ = ["Miner", "Pairs", "Triplets", "Tuples", "build", "names", "register"]
