"""An index: vectors with names, of which the nearest are found in one of several ways."""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import faiss
import numpy as np
from numpy.typing import NDArray

from holdfast.errors import SearchError, unknown
from holdfast.search.flat import Flat, Rows, Vectors
from holdfast.view import View

Fingerprints: TypeAlias = NDArray[np.uint8]
"""A digest of each image as the model sees it, shape (n, 16)."""

Thresholds: TypeAlias = tuple[tuple[float, float], ...]
"""Rates of false acceptance, each with its distance."""

LONGEST = 1e12
"""Length of a vector beyond any model's, at which the square of a distance is still far from overflowing 32 bits."""

COPIES = 4
"""Copies of a query in the index that a search can skip."""

CHANGED_COPIES, CHANGED_COPIES_BEFORE = 3, 6
"""Copies of an image, a little changed, by which tampering is told; indexes of before 0.2 rest on more of them."""

STATISTICS = 4
"""Numbers on a query that tell whether it looks tampered with."""


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


Builder: TypeAlias = Callable[[Vectors, int], Any]
"""Vectors and a seed to a FAISS index that is faster than comparing with every vector."""

KINDS: dict[str, tuple[Builder | None, int]] = {"flat": (None, 0), "ivf": (_ivf, 3_000), "hnsw": (_hnsw, 10_000)}
"""As `--kind` and manifests name them: what is built, and after how many queries.

On two Intel cores, 100,000 vectors of 128 dims take 3 s (ivf) and 16 s (hnsw) to build; comparing a query with all of
them takes 3 ms, or 0.4 ms in a batch. Both grow with the number of vectors, so that the break-even (1,100 and 5,600
single queries, ten times as many in batches) hardly depends on it.
"""
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
        self._build, self._pays_after = KINDS[kind]
        self._vectors, self._seed, self._asked = vectors, seed, 0
        self._flat: Flat | None = Flat(vectors)
        self._faiss: Any = None

    def prepare(self) -> None:
        """Build what makes searching faster, if there is such a thing and it is not there yet."""
        if self._build is not None:
            self._faiss, self._build = self._build(self._vectors, self._seed), None
            self._flat = None

    def search(self, queries: Vectors, k: int) -> Rows:
        """Rows of the k nearest vectors of each query, or of most of them; -1 where fewer were found."""
        self._asked += len(queries)
        if self._asked > self._pays_after:
            self.prepare()
        if self._flat is not None:
            return self._flat.search(queries, k)
        if hasattr(self._faiss, "hnsw"):
            self._faiss.hnsw.efSearch = max(128, 2 * k)
        rows: Rows = self._faiss.search(queries, k)[1]
        return rows


@dataclasses.dataclass(frozen=True)
class ModelFacts:
    """Which model made the vectors.

    Args:
        reference: what the person called it; shown, never opened.
        weights: digest of its weights, empty for a graph that shows none.
        view: how it saw the images.
        probe: its vectors of a few fixed images, by which another model is found out.
        audit: what its audits found, as `robustness.excerpt` keeps it.
        thresholds: rates of false acceptance, each with the distance below which two images show the same, as
            `calibrate` found them.
    """

    reference: str
    weights: str
    view: View
    probe: Vectors
    audit: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    thresholds: Thresholds = ()


@dataclasses.dataclass(frozen=True)
class SearchResult:
    """What a search found, nearest first.

    Args:
        distances: euclidean, of shape (n, k), infinite where fewer were found.
        rows: of the index, -1 there.
    """

    distances: NDArray[np.float32]
    rows: Rows


@dataclasses.dataclass(frozen=True)
class Index:
    """Vectors, what they show, and a structure to search them.

    Args:
        vectors: of shape (n, dim).
        ids: a name of each image.
        labels: the class of each, empty where unknown.
        fingerprints: digest of each image.
        model: which made the vectors.
        kind: flat, ivf or hnsw; by the number of vectors when left out.
        seed: of everything random.
        clean: statistics of clean queries that tampered ones are compared with, one row each; none if not calibrated.
        copies: changed copies of an image that these rest on.
    """

    vectors: Vectors
    ids: Sequence[str]
    labels: Sequence[str]
    fingerprints: Fingerprints
    model: ModelFacts
    kind: str | None = None
    seed: int = 0
    clean: NDArray[np.float32] = dataclasses.field(default_factory=lambda: np.empty((0, STATISTICS), np.float32))
    copies: int = CHANGED_COPIES

    def __post_init__(self) -> None:
        _refuse_unusable(self.vectors, "a vector")
        object.__setattr__(self, "kind", kind_for(len(self), self.kind))

    @functools.cached_property
    def structure(self) -> Structure:
        """What finds the nearest vectors."""
        return Structure(self.vectors, str(self.kind), self.seed)

    def __len__(self) -> int:
        return len(self.vectors)

    @property
    def dim(self) -> int:
        """Length of a vector."""
        return int(self.vectors.shape[1])

    def search(self, queries: NDArray[Any], k: int = 10, without: Fingerprints | None = None) -> SearchResult:
        """The k nearest of each query.

        Args:
            queries: vectors of shape (n, dim).
            k: how many, nearest first.
            without: a digest for each query; items that are the very same image are skipped.
        """
        asked = np.ascontiguousarray(queries, np.float32)
        if asked.ndim != 2 or asked.shape[1] != self.dim:
            raise SearchError(f"the index holds vectors of {self.dim} dims, the query has shape {asked.shape}")
        _refuse_unusable(asked, "a query")
        if k < 1:
            raise SearchError(f"cannot return {k} neighbours; ask for 1 or more")
        # A few more: when copies of the query are skipped k are left, and no near tie is lost to rounding.
        wanted = min(len(self), k + COPIES)
        rows = self.structure.search(asked, wanted)
        # Distances from the difference, so that small ones keep their digits.
        distances = np.linalg.norm(self.vectors[rows] - asked[:, None], axis=2)
        distances[rows < 0] = np.inf
        order = np.lexsort((rows, distances))
        found = SearchResult(np.take_along_axis(distances, order, 1), np.take_along_axis(rows, order, 1))
        if without is not None:
            return self.without_copies(found, without, k)
        return SearchResult(found.distances[:, :k], found.rows[:, :k])

    def without_copies(self, found: SearchResult, fingerprints: Fingerprints, k: int) -> SearchResult:
        """The k nearest of what was found for each query that are not the very same image as it.

        Args:
            found: the nearest, `COPIES` more than wanted.
            fingerprints: of the queries.
            k: how many.
        """
        gone = (found.rows < 0) | (self.fingerprints[found.rows] == fingerprints[:, None]).all(2)
        order = np.argsort(gone, axis=1, kind="stable")[:, :k]
        distances, rows = np.where(gone, np.inf, found.distances), np.where(gone, -1, found.rows)
        return SearchResult(np.take_along_axis(distances, order, 1), np.take_along_axis(rows, order, 1))

    def extended(
        self, vectors: Vectors, ids: Sequence[str], labels: Sequence[str], fingerprints: Fingerprints
    ) -> Index:
        """The index with more images; one whose id is there already takes the old one's place."""
        coming = set(ids)
        kept = np.array([row for row, name in enumerate(self.ids) if name not in coming], np.int64)
        return dataclasses.replace(
            self,
            vectors=np.concatenate([self.vectors[kept], vectors]),
            ids=[*(self.ids[row] for row in kept), *ids],
            labels=[*(self.labels[row] for row in kept), *labels],
            fingerprints=np.concatenate([self.fingerprints[kept], fingerprints]),
        )


def usable(rows: Vectors) -> NDArray[np.bool_]:
    """Which rows are finite, and short enough that their distances are finite, too; needs no second array as large."""
    fine: NDArray[np.bool_] = np.einsum("ij,ij->i", rows, rows, dtype=np.float64) <= LONGEST**2
    return fine


def _refuse_unusable(vectors: Vectors, what: str) -> None:
    if not usable(vectors).all():
        raise SearchError(f"{what} is not finite or far too long to be compared; check the model that made it")
