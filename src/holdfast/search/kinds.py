"""Kinds of indexes: how the nearest vectors are found with FAISS."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from typing import Any, TypeAlias

import faiss
import numpy as np
from numpy.typing import NDArray

from holdfast.errors import SearchError, unknown

Vectors: TypeAlias = NDArray[np.float32]
Rows: TypeAlias = NDArray[np.int64]


def _ivf(vectors: Vectors, seed: int) -> Any:
    """Cells around k-means centroids; a query is compared with the vectors of one in 32 cells, 16 at least."""
    cells = cell_count(len(vectors))
    index = faiss.IndexIVFFlat(faiss.IndexFlatL2(vectors.shape[1]), vectors.shape[1], cells)
    index.cp.niter, index.cp.seed = 10, seed % 2**31
    index.cp.min_points_per_centroid, index.cp.max_points_per_centroid = 1, 64
    index.nprobe = min(cells, max(16, round(cells / 32)))
    index.train(vectors)
    index.add(vectors)
    return index


def cell_count(vectors: int) -> int:
    """About 4 √n, as is usual; more than 4,096 would take longer to learn than they save."""
    return max(1, min(round(4 * math.sqrt(vectors)), 4096, vectors))


def _hnsw(vectors: Vectors, seed: int) -> Any:
    """A hierarchy of neighbour graphs, 32 links each and 64 in the lowest; FAISS draws the layers with its own seed."""
    index = faiss.IndexHNSWFlat(vectors.shape[1], 32)
    index.hnsw.efConstruction = 80
    index.add(vectors)
    return index


@dataclasses.dataclass(frozen=True)
class Kind:
    """How vectors are searched.

    Args:
        name: in `--kind` and in manifests.
        build: vectors and a seed to the FAISS index that is faster than comparing with every vector, if there is one.
        pays_after: queries after which it is built. On two ARM cores, 100,000 vectors of 128 dims take 41 s (ivf) and
            113 s (hnsw) to build; comparing a query with all of them takes 29 ms, or 3 ms in a batch. Both grow with
            the number of vectors, so that the break-even (1,400 and 4,200 single queries, ten times as many in
            batches) hardly depends on it.
    """

    name: str
    build: Callable[[Vectors, int], Any] | None = None
    pays_after: int = 0


KINDS = {kind.name: kind for kind in (Kind("flat"), Kind("ivf", _ivf, 3_000), Kind("hnsw", _hnsw, 10_000))}
MANY = 200_000
"""Vectors from which cells are the default; up to there comparing with all takes milliseconds."""


def kind_for(count: int, asked: str | None = None) -> str:
    """The kind asked for, or the one that suits so many vectors."""
    if asked is None:
        return "ivf" if count > MANY else "flat"
    if asked not in KINDS:
        raise SearchError(unknown("kind of index", asked, KINDS))
    return asked


class Structure:
    """Finds the nearest of some vectors.

    FAISS structures are never stored, since its files are trusted by the library that reads them: they are built from
    the vectors, in the process that needs them. Until so many queries were asked that building pays, each query is
    compared with every vector, which is exact; so an index of any kind opens at once. A service that would rather wait
    at its start than at some query calls `prepare`.

    Args:
        vectors: of shape (n, dim).
        kind: one of `KINDS`.
        seed: of the cells.
    """

    def __init__(self, vectors: Vectors, kind: str, seed: int) -> None:
        self.kind = KINDS[kind]
        self._vectors, self._seed, self._asked = vectors, seed, 0
        self._faiss = faiss.IndexFlatL2(vectors.shape[1])
        self._faiss.add(vectors)
        self._ready = self.kind.build is None

    def prepare(self) -> None:
        """Build what makes searching faster, if there is such a thing and it is not there yet."""
        if not self._ready and self.kind.build is not None:
            self._faiss, self._ready = self.kind.build(self._vectors, self._seed), True

    def search(self, queries: Vectors, k: int) -> Rows:
        """Rows of the k nearest vectors of each query, or of most of them; -1 where fewer were found."""
        self._asked += len(queries)
        if self._asked > self.kind.pays_after:
            self.prepare()
        if hasattr(self._faiss, "hnsw"):
            self._faiss.hnsw.efSearch = max(128, 2 * k)
        rows: Rows = self._faiss.search(queries, k)[1]
        return rows
