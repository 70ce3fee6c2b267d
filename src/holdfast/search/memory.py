"""Indexes in the memory of this process: exact, or by cells or a graph that are built when it pays."""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import faiss
import numpy as np

from holdfast.search.flat import Flat, Rows, Vectors
from holdfast.search.index import Filter, Index, IndexedImage, IndexedImages, SearchResult, refuse_unusable


def _ivf(vectors: Vectors, seed: int) -> Any:
    """Cells around k-means centroids."""
    cells = cell_count(len(vectors))
    index = faiss.IndexIVFFlat(faiss.IndexFlatL2(vectors.shape[1]), vectors.shape[1], cells)
    index.cp.niter, index.cp.seed = 10, seed % 2**31
    index.cp.min_points_per_centroid, index.cp.max_points_per_centroid = 1, 64
    index.train(vectors)
    index.add(vectors)
    return index


def cell_count(vectors: int) -> int:
    """About 4 √n, as is usual; more than 4,096 would take longer to learn than they save."""
    return max(1, min(round(4 * math.sqrt(vectors)), 4096, vectors))


def probed_cells(cells: int, vectors: int, k: int) -> int:
    """With how many cells a query is compared: one in 32, 16 at least, and so many that they hold 2 k vectors or so."""
    return min(cells, max(16, round(cells / 32), math.ceil(2 * k * cells / vectors)))


def _hnsw(vectors: Vectors, seed: int) -> Any:
    """A hierarchy of neighbour graphs, 32 links each and 64 in the lowest; FAISS draws the layers with its own seed."""
    index = faiss.IndexHNSWFlat(vectors.shape[1], 32)
    index.hnsw.efConstruction = 80
    index.add(vectors)
    return index


Builder: TypeAlias = Callable[[Vectors, int], Any]
"""Vectors and a seed to a FAISS index that is faster than comparing with every vector."""

KINDS: dict[str, tuple[Builder | None, int]] = {"flat": (None, 0), "ivf": (_ivf, 3_000), "hnsw": (_hnsw, 10_000)}
"""As `--kind` and manifests name them: what is built, and after how many queries.

On two Intel cores, 100,000 vectors of 128 dims take 3 s (ivf) and 16 s (hnsw) to build; comparing a query with all of
them takes 3 ms, or 0.4 ms in a batch. Both grow with the number of vectors, so that the break-even (1,100 and 5,600
single queries, ten times as many in batches) hardly depends on it.
"""


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
        self._build, self._pays_after = KINDS[kind]
        self._vectors, self._seed, self._asked = vectors, seed, 0
        self._faiss: Any = None

    @functools.cached_property
    def _flat(self) -> Flat:
        return Flat(self._vectors)

    def prepare(self) -> None:
        """Build what makes searching faster, if there is such a thing and it is not there yet."""
        if self._build is not None:
            self._faiss, self._build = self._build(self._vectors, self._seed), None
            self.__dict__.pop("_flat", None)

    def search(self, queries: Vectors, k: int) -> Rows:
        """Rows of the k nearest vectors of each query, or of most of them, no more than there are."""
        self._asked += len(queries)
        if self._asked > self._pays_after:
            self.prepare()
        if self._faiss is None:
            return self._flat.search(queries, k)
        if hasattr(self._faiss, "hnsw"):
            self._faiss.hnsw.efSearch = max(128, 2 * k)
        else:
            self._faiss.nprobe = probed_cells(self._faiss.nlist, len(self._vectors), k)
        rows: Rows = self._faiss.search(queries, k)[1]
        short = (rows < 0).any(1)
        if short.any():  # cells that hold too few, or a graph whose parts are not linked
            rows[short] = self._flat.search(queries[short], k)
        return rows


@dataclasses.dataclass(frozen=True)
class MemoryIndex(Index):
    """An index in memory.

    Args:
        vectors: of shape (n, dim).
        images: what they show.
    """

    vectors: Vectors
    images: IndexedImages

    def __post_init__(self) -> None:
        refuse_unusable(self.vectors, "a vector")

    @functools.cached_property
    def structure(self) -> Structure:
        """What finds the nearest vectors."""
        return Structure(self.vectors, self.kind, self.seed)

    def __len__(self) -> int:
        return len(self.vectors)

    def known(self, ids: Sequence[str]) -> Mapping[str, IndexedImage]:
        """Those of some names that are in it."""
        return {name: self.images[self._row_of[name]] for name in ids if name in self._row_of}

    def vectors_of(self, ids: Sequence[str]) -> Vectors:
        """The vectors of images that are in it."""
        return self.vectors[[self._row_of[name] for name in ids]]

    def extended(self, vectors: Vectors, images: IndexedImages) -> MemoryIndex:
        """The index with more images; one whose id is there already takes the old one's place."""
        coming = set(images.ids)
        kept = np.array([row for row, name in enumerate(self.images.ids) if name not in coming], np.int64)
        return dataclasses.replace(
            self,
            vectors=np.concatenate([self.vectors[kept], vectors]),
            images=self.images.subset(kept).followed_by(images),
        )

    def prepare(self) -> None:
        """Build cells or graph, if the kind has such."""
        self.structure.prepare()

    def _nearest(self, queries: Vectors, k: int, where: Filter) -> SearchResult:
        if not where:
            rows = self.structure.search(queries, min(k, len(self)))
        elif len(some := self._rows(where)):
            rows = some[Flat(self.vectors[some]).search(queries, min(k, len(some)))]
        else:
            rows = np.empty((len(queries), 0), np.int64)
        return SearchResult.among(self.vectors, self.images, queries, rows)

    @functools.cached_property
    def _row_of(self) -> dict[str, int]:
        return {name: row for row, name in enumerate(self.images.ids)}

    def _rows(self, where: Filter) -> Rows:
        """Rows that a filter lets through, in order."""
        rows = np.arange(len(self))
        for wanted, rows_of in ((where.labels, self._rows_of_label), (where.groups, self._rows_of_group)):
            if wanted:
                fitting = [rows_of[word] for word in set(wanted) if word in rows_of]
                rows = np.intersect1d(rows, np.concatenate([rows[:0], *fitting]), assume_unique=True)
        return rows

    @functools.cached_property
    def _rows_of_label(self) -> dict[str, Rows]:
        return _rows_of(self.images.labels)

    @functools.cached_property
    def _rows_of_group(self) -> dict[str, Rows]:
        return _rows_of(self.images.groups)


def _rows_of(words: Sequence[str]) -> dict[str, Rows]:
    """The rows that each word stands in."""
    rows: dict[str, list[int]] = {}
    for row, word in enumerate(words):
        rows.setdefault(word, []).append(row)
    return {word: np.array(found, np.int64) for word, found in rows.items()}
