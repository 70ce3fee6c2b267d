"""How good an embedding is: retrieval, clustering, geometry, hardness."""

from holdfast.config import builder
from holdfast.metrics.base import EmbeddedSet, Metric, Value, Values, register, registry
from holdfast.metrics.clustered import clustering, nmi
from holdfast.metrics.evaluation import Evaluation, evaluate
from holdfast.metrics.geometric import geometry
from holdfast.metrics.lloyd import kmeans
from holdfast.metrics.mined import hardness
from holdfast.metrics.nearest import neighbours
from holdfast.metrics.ranked import retrieval

build, names = builder(registry), registry.names

__all__ = [
    "EmbeddedSet",
    "Evaluation",
    "Metric",
    "Value",
    "Values",
    "build",
    "clustering",
    "evaluate",
    "geometry",
    "hardness",
    "kmeans",
    "names",
    "neighbours",
    "nmi",
    "register",
    "retrieval",
]
