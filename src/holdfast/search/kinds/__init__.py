"""Search structures: exact, in cells, along a graph."""

from holdfast.errors import SearchError, unknown
from holdfast.search.kinds.base import Arrays, Rows, Structure, Vectors, damaged, usable
from holdfast.search.kinds.flat import Flat
from holdfast.search.kinds.hnsw import Hnsw
from holdfast.search.kinds.ivf import Ivf

KINDS: dict[str, type[Structure]] = {kind.name: kind for kind in (Flat, Ivf, Hnsw)}
MANY = 200_000
"""Vectors from which cells are the default; up to there comparing with all takes milliseconds."""


def kind_for(count: int, asked: str | None = None) -> type[Structure]:
    """The kind asked for, or the one that suits so many vectors."""
    if asked is None:
        return Ivf if count > MANY else Flat
    if asked not in KINDS:
        raise SearchError(unknown("kind of index", asked, KINDS))
    return KINDS[asked]


__all__ = [
    "KINDS",
    "MANY",
    "Arrays",
    "Flat",
    "Hnsw",
    "Ivf",
    "Rows",
    "Structure",
    "Vectors",
    "damaged",
    "kind_for",
    "usable",
]
