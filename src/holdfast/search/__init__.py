"""Indexes of vectors: build, add to, search, calibrate."""

from holdfast.search.building import Added, add_images, create_index, model_of
from holdfast.search.calibrating import calibrate
from holdfast.search.index import Index, ModelFacts, Neighbours, make_index
from holdfast.search.page import printable, strip_page
from holdfast.search.querying import Answer, Answers, Match, ask
from holdfast.search.store import read_index, read_manifest, write_index
from holdfast.search.tampering import Detector, Verdict, detector_of, statistics
from holdfast.search.vectors import save_vectors

__all__ = [
    "Added",
    "Answer",
    "Answers",
    "Detector",
    "Index",
    "Match",
    "ModelFacts",
    "Neighbours",
    "Verdict",
    "add_images",
    "ask",
    "calibrate",
    "create_index",
    "detector_of",
    "make_index",
    "model_of",
    "printable",
    "read_index",
    "read_manifest",
    "save_vectors",
    "statistics",
    "strip_page",
    "write_index",
]
