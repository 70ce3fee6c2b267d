"""How good an embedding is: retrieval, clustering, geometry, hardness."""

from holdfast.config import builder
from holdfast.metric_info import MetricInfo
from holdfast.metrics.base import EmbeddedSet, Metric, Value, Values, register, registry
from holdfast.metrics.clustering import Clustering, clustering, kmeans, nmi
from holdfast.metrics.evaluation import Evaluation, described, evaluate
from holdfast.metrics.geometry import Geometry, geometry
from holdfast.metrics.hardness import Hardness, hardness
from holdfast.metrics.neighbours import neighbours
from holdfast.metrics.retrieval import Retrieval, retrieval

build, names = builder(registry), registry.names

__all__ = ["EmbeddedSet", "Metric", "MetricInfo", "Value", "Values", "build", "names", "register", "registry"]
__all__ += ["Clustering", "Evaluation", "Geometry", "Hardness", "Retrieval", "described", "evaluate"]
__all__ += ["clustering", "geometry", "hardness", "kmeans", "neighbours", "nmi", "retrieval"]
