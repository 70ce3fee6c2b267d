"""Vectors in cells, of which a query looks into the nearest few."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, ClassVar

import faiss
import numpy as np
from numpy.typing import NDArray

from holdfast.search.kinds.base import Arrays, Rows, Structure, Vectors, damaged, require, usable

MOST_CELLS = 4096
"""More would take longer to learn than they save."""
PER_CELL = 64
"""Vectors per cell that cells are learned from."""
LOOKED_INTO = 1 / 32
"""Share of the cells that a query looks into."""
LEAST_LOOKED_INTO = 16


class Ivf(Structure):
    """An inverted file: cells around centroids; a query is compared with the vectors of the cells nearest to it.

    Args:
        vectors: all of them.
        centroids: of the cells.
        cells: which cell each vector is in.
    """

    name: ClassVar[str] = "ivf"

    def __init__(self, vectors: Vectors, centroids: Vectors, cells: Rows) -> None:
        self._centroids, self._cells = centroids, cells
        self._coarse = faiss.IndexFlatL2(vectors.shape[1])
        self._coarse.add(centroids)
        self._faiss = faiss.IndexIVFFlat(self._coarse, vectors.shape[1], len(centroids))
        self._faiss.nprobe = min(len(centroids), max(LEAST_LOOKED_INTO, round(LOOKED_INTO * len(centroids))))
        # Assigning anew would cost a search per vector at every loading.
        self._faiss.add_core(len(vectors), faiss.swig_ptr(vectors), None, faiss.swig_ptr(cells))

    @classmethod
    def build(cls, vectors: Vectors, seed: int) -> Ivf:
        """Learn the cells by k-means on a sample."""
        means = faiss.Kmeans(
            vectors.shape[1],
            cell_count(len(vectors)),
            niter=10,
            seed=seed % 2**31,
            min_points_per_centroid=1,
            max_points_per_centroid=PER_CELL,
        )
        means.train(vectors)
        centroids = np.ascontiguousarray(means.centroids, np.float32)
        return cls(vectors, centroids, _assign(centroids, vectors))

    @classmethod
    def restore(cls, vectors: Vectors, arrays: Mapping[str, NDArray[Any]]) -> Ivf:
        """Cells as they were learned."""
        centroids, cells = require(arrays, "centroids", np.float32, 2), require(arrays, "cells", np.int64, 1)
        if not len(centroids) or centroids.shape[1] != vectors.shape[1] or not usable(centroids).all():
            raise damaged("its centroids do not fit its vectors")
        if len(cells) != len(vectors) or cells.min() < 0 or cells.max() >= len(centroids):
            raise damaged("a vector lies in a cell that does not exist")
        return cls(vectors, centroids, cells)

    def arrays(self) -> Arrays:
        """Centroids and cells."""
        return {"centroids": self._centroids, "cells": self._cells}

    def grown(self, vectors: Vectors, kept: Rows, seed: int) -> Ivf:
        """New vectors go into the old cells, until there are so many that twice the cells are due."""
        if cell_count(len(vectors)) >= 2 * len(self._centroids):
            return Ivf.build(vectors, seed)
        added = _assign(self._centroids, vectors[len(kept) :])
        return Ivf(vectors, self._centroids, np.concatenate([self._cells[kept], added]))

    def search(self, queries: Vectors, k: int) -> Rows:
        """The k nearest of those in the nearest cells."""
        rows: Rows = self._faiss.search(queries, k)[1]
        return rows


def cell_count(vectors: int) -> int:
    """About 4 √n, as is usual."""
    return max(1, min(round(4 * math.sqrt(vectors)), MOST_CELLS, vectors))


def _assign(centroids: Vectors, vectors: Vectors) -> Rows:
    """The nearest centroid of each vector."""
    if not len(vectors):
        return np.empty(0, np.int64)
    coarse = faiss.IndexFlatL2(centroids.shape[1])
    coarse.add(centroids)
    cells: Rows = coarse.search(np.ascontiguousarray(vectors), 1)[1][:, 0]
    return cells
