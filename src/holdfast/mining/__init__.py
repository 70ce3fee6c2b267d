"""Pair and triplet miners."""

from holdfast.config import builder
from holdfast.mining.base import Miner, register, registry
from holdfast.mining.batch import MiningBatch
from holdfast.mining.distance import Distance
from holdfast.mining.easy_positive import EasyPositive
from holdfast.mining.known import BatchFacts, training_batch
from holdfast.mining.multi_similarity import MultiSimilarityMiner
from holdfast.mining.semihard import SemiHard, SoftHard
from holdfast.mining.triplet import EasyPositiveHardNegative, Hardest, Random, TripletMiner
from holdfast.mining.tuples import IndicesTuple, Pairs, Recalled, Triplets, Tuples

build, names = builder(registry), registry.names

__all__ = [
    "BatchFacts",
    "Distance",
    "EasyPositive",
    "EasyPositiveHardNegative",
    "Hardest",
    "IndicesTuple",
    "Miner",
    "MiningBatch",
]
__all__ += [
    "MultiSimilarityMiner",
    "Pairs",
    "Random",
    "Recalled",
    "SemiHard",
    "SoftHard",
    "TripletMiner",
    "Triplets",
    "Tuples",
    "training_batch",
]
__all__ += ["build", "names", "register"]
