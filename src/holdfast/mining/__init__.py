"""Pair and triplet miners."""

from holdfast.config import builder
from holdfast.mining.base import Miner, Pairs, Triplets, Tuples, register, registry
from holdfast.mining.batch import MiningBatch
from holdfast.mining.distance import Distance
from holdfast.mining.easy_positive import EasyPositive
from holdfast.mining.hardest import EasyPositiveHardNegative, Hardest
from holdfast.mining.multi_similarity import MultiSimilarityMiner
from holdfast.mining.random import Random
from holdfast.mining.semihard import SemiHard
from holdfast.mining.softhard import SoftHard
from holdfast.mining.triplet import TripletMiner

build, names = builder(registry), registry.names

__all__ = [
    "Distance",
    "EasyPositive",
    "EasyPositiveHardNegative",
    "Hardest",
    "Miner",
    "MiningBatch",
    "MultiSimilarityMiner",
    "Pairs",
    "Random",
    "SemiHard",
    "SoftHard",
    "TripletMiner",
    "Triplets",
    "Tuples",
    "build",
    "names",
    "register",
]
