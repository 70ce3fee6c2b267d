"""A graph of near vectors, along which a query walks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import faiss
import numpy as np
from numpy.typing import NDArray

from holdfast.search.kinds.base import Arrays, Rows, Structure, Vectors, damaged, require

LINKS = 32
"""Neighbours of a vector in the upper layers; twice as many in the lowest."""
BUILD_BREADTH = 80
SEARCH_BREADTH = 128


class Hnsw(Structure):
    """A hierarchy of neighbour graphs: fast to search, slow to build, half as much again to store.

    Args:
        graph: FAISS's, with its vectors.
    """

    name: ClassVar[str] = "hnsw"

    def __init__(self, graph: Any) -> None:
        self._faiss = graph

    @classmethod
    def build(cls, vectors: Vectors, seed: int) -> Hnsw:
        """Insert the vectors one by one; FAISS draws each one's layers from a seed of its own."""
        graph = _empty(vectors.shape[1])
        graph.add(vectors)
        return cls(graph)

    @classmethod
    def restore(cls, vectors: Vectors, arrays: Mapping[str, NDArray[Any]]) -> Hnsw:
        """The graph as it was stored; every link is checked, since FAISS follows them without looking."""
        levels, links = require(arrays, "levels", np.int32, 1), require(arrays, "links", np.int32, 1)
        entry = require(arrays, "entry", np.int64, 1)
        graph = _empty(vectors.shape[1])
        widths = faiss.vector_to_array(graph.hnsw.cum_nneighbor_per_level).astype(np.int64)
        offsets = _checked_offsets(len(vectors), levels, links, entry, widths)
        graph.storage.add(vectors)
        faiss.copy_array_to_vector(levels, graph.hnsw.levels)
        faiss.copy_array_to_vector(offsets.astype(np.uint64), graph.hnsw.offsets)
        faiss.copy_array_to_vector(links, graph.hnsw.neighbors)
        graph.hnsw.entry_point, graph.hnsw.max_level = int(entry[0]), int(levels.max()) - 1
        graph.ntotal = len(vectors)
        return cls(graph)

    def arrays(self) -> Arrays:
        """Layers of each vector, links, and where a walk begins."""
        graph = self._faiss.hnsw
        return {
            "levels": faiss.vector_to_array(graph.levels),
            "links": faiss.vector_to_array(graph.neighbors),
            "entry": np.array([graph.entry_point], np.int64),
        }

    def grown(self, vectors: Vectors, kept: Rows, seed: int) -> Hnsw:
        """New vectors are inserted; a graph cannot forget, so it is built anew where old ones are gone."""
        if len(kept) < self._faiss.ntotal:
            return Hnsw.build(vectors, seed)
        grown = Hnsw.restore(vectors[: len(kept)], self.arrays())
        if len(vectors) > len(kept):
            grown._faiss.add(np.ascontiguousarray(vectors[len(kept) :]))
        return grown

    def search(self, queries: Vectors, k: int) -> Rows:
        """The k nearest met on a walk."""
        self._faiss.hnsw.efSearch = max(SEARCH_BREADTH, 2 * k)
        rows: Rows = self._faiss.search(queries, k)[1]
        return rows


def _empty(dim: int) -> Any:
    graph = faiss.IndexHNSWFlat(dim, LINKS)
    graph.hnsw.efConstruction = BUILD_BREADTH
    return graph


def _checked_offsets(
    count: int, levels: NDArray[np.int32], links: NDArray[np.int32], entry: Rows, widths: Rows
) -> NDArray[np.int64]:
    """Where each vector's links begin, once every link is known to lead to a vector of its own layer.

    Args:
        count: of vectors.
        levels: how many layers each is in.
        links: of all vectors, one after another, layer by layer, -1 for none.
        entry: one row, of the highest layer.
        widths: links of a vector that is in 0, 1, 2, ... layers.
    """
    if len(levels) != count or levels.min() < 1 or levels.max() >= len(widths):
        raise damaged("its graph has other layers than its vectors")
    offsets = np.concatenate([[0], np.cumsum(widths[levels])])
    if len(links) != offsets[-1] or links.min() < -1 or links.max() >= count:
        raise damaged("its graph links to vectors that do not exist")
    if len(entry) != 1 or not 0 <= entry[0] < count or levels[entry[0]] != levels.max():
        raise damaged("its graph begins nowhere")
    for layer in range(1, int(levels.max())):
        members = np.flatnonzero(levels > layer)
        columns = np.arange(widths[layer], widths[layer + 1])
        reached = links[offsets[members][:, None] + columns]
        if (levels[reached[reached >= 0]] <= layer).any():
            raise damaged("its graph links across layers")
    return offsets
