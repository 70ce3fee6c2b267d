"""Indexes of vectors: build, add to, search, calibrate."""

from holdfast.search.building import add_images, create_index, model_of
from holdfast.search.filling import Added
from holdfast.search.index import Filter, Index, IndexedImages, ModelFacts, SearchResult
from holdfast.search.memory import MemoryIndex
from holdfast.search.page import strip_page
from holdfast.search.querying import (
    Answer,
    Answers,
    Detector,
    Hit,
    Searcher,
    TamperVerdict,
    ask,
    detector_of,
    statistics,
)
from holdfast.search.store import read_index, read_manifest, write_index
from holdfast.search.vector_files import save_vectors
from holdfast.search.verification import calibrate, read_thresholds

__all__ = [
    "Added",
    "Answer",
    "Answers",
    "Detector",
    "Filter",
    "Hit",
    "Index",
    "IndexedImages",
    "MemoryIndex",
    "ModelFacts",
    "SearchResult",
    "Searcher",
    "TamperVerdict",
]
__all__ += ["add_images", "ask", "calibrate", "create_index", "detector_of", "model_of", "read_index"]
__all__ += ["read_manifest", "read_thresholds", "save_vectors", "statistics", "strip_page", "write_index"]
