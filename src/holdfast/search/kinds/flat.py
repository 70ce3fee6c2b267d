"""Every vector is compared."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import faiss
from numpy.typing import NDArray

from holdfast.search.kinds.base import Arrays, Rows, Structure, Vectors


class Flat(Structure):
    """Exact: each query is compared with every vector."""

    name: ClassVar[str] = "flat"

    def __init__(self, vectors: Vectors) -> None:
        self._faiss = faiss.IndexFlatL2(vectors.shape[1])
        self._faiss.add(vectors)

    @classmethod
    def build(cls, vectors: Vectors, seed: int) -> Flat:
        """Nothing to learn."""
        return cls(vectors)

    @classmethod
    def restore(cls, vectors: Vectors, arrays: Mapping[str, NDArray[Any]]) -> Flat:
        """Nothing was stored."""
        return cls(vectors)

    def arrays(self) -> Arrays:
        """Nothing to store."""
        return {}

    def grown(self, vectors: Vectors, kept: Rows, seed: int) -> Flat:
        """The vectors are all there is."""
        return Flat(vectors)

    def search(self, queries: Vectors, k: int) -> Rows:
        """The k nearest."""
        rows: Rows = self._faiss.search(queries, k)[1]
        return rows
