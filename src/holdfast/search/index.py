"""An index: vectors with names that are searched for the nearest."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from holdfast.errors import SearchError
from holdfast.search.kinds import Rows, Structure, Vectors, kind_for
from holdfast.view import View

Fingerprints = NDArray[np.uint8]
"""A digest of each image as the model sees it, shape (n, 16)."""

LONGEST = 1e12
"""Length of a vector beyond any model's, at which the square of a distance is still far from overflowing 32 bits."""

COPIES = 4
"""Copies of a query in the index that a search can skip."""

STATISTICS = 4
"""Numbers on a query that tell whether it looks tampered with."""


@dataclasses.dataclass(frozen=True)
class ModelFacts:
    """Which model made the vectors.

    Args:
        reference: what the person called it; shown, never opened.
        weights: digest of its weights, empty for a graph that shows none.
        view: how it saw the images.
        probe: its vectors of a few fixed images, by which another model is found out.
    """

    reference: str
    weights: str
    view: View
    probe: Vectors


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
    """

    vectors: Vectors
    ids: Sequence[str]
    labels: Sequence[str]
    fingerprints: Fingerprints
    model: ModelFacts
    kind: str | None = None
    seed: int = 0
    clean: NDArray[np.float32] = dataclasses.field(default_factory=lambda: np.empty((0, STATISTICS), np.float32))
    structure: Structure = dataclasses.field(init=False, repr=False)

    def __post_init__(self) -> None:
        _refuse_unusable(self.vectors, "a vector")
        object.__setattr__(self, "kind", kind_for(len(self), self.kind))
        object.__setattr__(self, "structure", Structure(self.vectors, str(self.kind), self.seed))

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
        # A few more, so that k are left when copies of the query are skipped.
        wanted = min(len(self), k if without is None else k + COPIES)
        rows = self.structure.search(asked, wanted)
        # Distances from the difference, so that small ones keep their digits.
        distances = np.linalg.norm(self.vectors[rows] - asked[:, None], axis=2)
        gone = rows < 0
        if without is not None:
            gone |= (self.fingerprints[rows] == without[:, None]).all(2)
        distances[gone], rows = np.inf, np.where(gone, -1, rows)
        order = np.lexsort((rows, distances))[:, :k]
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
