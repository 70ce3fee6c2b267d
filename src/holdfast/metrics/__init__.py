"""How good an embedding is: retrieval, clustering, geometry, hardness."""

from holdfast.config import builder
from holdfast.metrics.base import EmbeddedSet, Metric, Value, Values, register, registry
from holdfast.metrics.clustering import clustering, nmi
from holdfast.metrics.evaluation import Evaluation, described, evaluate
from holdfast.metrics.geometry import geometry
from holdfast.metrics.hardness import hardness
from holdfast.metrics.kmeans import kmeans
from holdfast.metrics.neighbours import neighbours
from holdfast.metrics.retrieval import retrieval

build, names = builder(registry), registry.names

__all__ = [
    "EmbeddedSet",
    "Evaluation",
    "Metric",
    "Value",
    "Values",
    "build",
    "clustering",
    "described",
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
