"""An index: vectors with names, of which the nearest are found."""

from __future__ import annotations

import abc
import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Literal, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from holdfast.errors import SearchError
from holdfast.search.flat import Rows, Vectors
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

AT_ONCE = 2**22
"""Numbers of the vectors whose distances are taken at a time."""

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


class IndexedImage(NamedTuple):
    """What an index knows of an image besides its name and vector.

    Args:
        label: its class, empty where unknown.
        group: such as its camera, empty where unknown.
        fingerprint: digest of its pixels.
    """

    label: str
    group: str
    fingerprint: bytes


@dataclasses.dataclass(frozen=True)
class IndexedImages:
    """What an index knows of images besides their vectors, row by row.

    Args:
        ids: a name of each, all different.
        labels: the class of each, empty where unknown.
        groups: such as the camera of each, empty where unknown.
        fingerprints: digest of each.
    """

    ids: Sequence[str]
    labels: Sequence[str]
    groups: Sequence[str]
    fingerprints: Fingerprints

    def __len__(self) -> int:
        return len(self.ids)

    def __getitem__(self, row: int) -> IndexedImage:
        return IndexedImage(self.labels[row], self.groups[row], self.fingerprints[row].tobytes())

    def subset(self, rows: Rows) -> IndexedImages:
        """Some of them."""
        ids, labels, groups = ([column[row] for row in rows] for column in (self.ids, self.labels, self.groups))
        return IndexedImages(ids, labels, groups, self.fingerprints[rows])

    def followed_by(self, more: IndexedImages) -> IndexedImages:
        """These, then those."""
        return IndexedImages(
            [*self.ids, *more.ids],
            [*self.labels, *more.labels],
            [*self.groups, *more.groups],
            np.concatenate([self.fingerprints, more.fingerprints]),
        )


@dataclasses.dataclass(frozen=True)
class Filter:
    """Which images of an index a search is about.

    Args:
        labels: of one of these classes; any when empty.
        groups: of one of these groups; any when empty.
    """

    labels: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.labels or self.groups)


@dataclasses.dataclass(frozen=True)
class SearchResult:
    """What a search found, nearest first.

    Args:
        distances: euclidean, of shape (n, k), infinite where fewer were found.
        rows: of `images`, -1 there.
        images: among which they are.
    """

    distances: NDArray[np.float32]
    rows: Rows
    images: IndexedImages

    @classmethod
    def among(cls, vectors: Vectors, images: IndexedImages, queries: Vectors, rows: Rows) -> SearchResult:
        """Rows of vectors that are near to each query, -1 for none, in order.

        Distances come from the difference, so that small ones keep their digits.
        """
        distances = np.full(rows.shape, np.inf, np.float32)
        step = max(1, AT_ONCE // max(1, rows.shape[1] * queries.shape[1]))
        for start in range(0, len(rows) if len(vectors) else 0, step):
            some = slice(start, start + step)
            distances[some] = np.linalg.norm(vectors[rows[some]] - queries[some, None], axis=2)
        distances[rows < 0] = np.inf
        order = np.lexsort((rows, distances))
        return cls(np.take_along_axis(distances, order, 1), np.take_along_axis(rows, order, 1), images)

    def first(self, k: int) -> SearchResult:
        """The k nearest."""
        return dataclasses.replace(self, distances=self.distances[:, :k], rows=self.rows[:, :k])

    def without(self, fingerprints: Fingerprints, k: int) -> SearchResult:
        """The k nearest that are not the very same image as their query.

        Args:
            fingerprints: of the queries.
            k: how many; `COPIES` more should have been found.
        """
        gone = self.rows < 0
        if len(self.images):
            gone |= (self.images.fingerprints[self.rows] == fingerprints[:, None]).all(2)
        order = np.argsort(gone, axis=1, kind="stable")[:, :k]
        distances, rows = np.where(gone, np.inf, self.distances), np.where(gone, -1, self.rows)
        return SearchResult(np.take_along_axis(distances, order, 1), np.take_along_axis(rows, order, 1), self.images)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Index(abc.ABC):
    """Vectors, what they show, and a way to find the nearest.

    Args:
        model: which made the vectors.
        kind: how the nearest are found, as `--kind` names it.
        seed: of everything random.
        clean: statistics of clean queries that tampered ones are compared with, one row each; none if not calibrated.
        copies: changed copies of an image that these rest on.
        unfinished: on how many images it is to be calibrated once all are in it; None for an index that is whole.
    """

    block: ClassVar[int | None] = None
    """Images that are added at a time; None for all at once."""

    model: ModelFacts
    kind: str = "flat"
    seed: int = 0
    clean: NDArray[np.float32] = dataclasses.field(default_factory=lambda: np.empty((0, STATISTICS), np.float32))
    copies: int = CHANGED_COPIES
    unfinished: int | None = None

    @abc.abstractmethod
    def __len__(self) -> int:
        """Images in it."""

    @abc.abstractmethod
    def known(self, ids: Sequence[str]) -> Mapping[str, IndexedImage]:
        """Those of some names that are in it."""

    @abc.abstractmethod
    def vectors_of(self, ids: Sequence[str]) -> Vectors:
        """The vectors of images that are in it."""

    @abc.abstractmethod
    def extended(self, vectors: Vectors, images: IndexedImages) -> Index:
        """The index with more images; one whose id is there already takes the old one's place."""

    @abc.abstractmethod
    def _nearest(self, queries: Vectors, k: int, where: Filter) -> SearchResult:
        """The k nearest of each query, or most of them, or all that there are."""

    @property
    def dim(self) -> int:
        """Length of a vector."""
        return int(self.model.probe.shape[1])

    def settle(self) -> None:  # noqa: B027
        """Put away what was added, so that it is found as quickly as the rest."""

    def prepare(self) -> None:  # noqa: B027
        """Do now what would else make some later search wait."""

    def search(
        self,
        queries: NDArray[Any],
        k: int = 10,
        without: Fingerprints | None = None,
        where: Filter | None = None,
    ) -> SearchResult:
        """The k nearest of each query.

        Args:
            queries: vectors of shape (n, dim).
            k: how many, nearest first.
            without: a digest for each query; items that are the very same image are skipped.
            where: which images are searched; all when left out.
        """
        asked = np.ascontiguousarray(queries, np.float32)
        if asked.ndim != 2 or asked.shape[1] != self.dim:
            raise SearchError(f"the index holds vectors of {self.dim} dims, the query has shape {asked.shape}")
        refuse_unusable(asked, "a query")
        if k < 1:
            raise SearchError(f"cannot return {k} neighbours; ask for 1 or more")
        # A few more: when copies of the query are skipped k are left, and no near tie is lost to rounding.
        found = self._nearest(asked, k + COPIES, where or Filter())
        return found.first(k) if without is None else found.without(without, k)

    def states(self, images: IndexedImages) -> list[Literal["new", "changed", "same"]]:
        """How each of some images stands to what is in the index."""
        known = self.known(images.ids)
        return [
            "new" if name not in known else "same" if known[name] == images[row] else "changed"
            for row, name in enumerate(images.ids)
        ]


def usable(rows: Vectors) -> NDArray[np.bool_]:
    """Which rows are finite, and short enough that their distances are finite, too; needs no second array as large."""
    fine: NDArray[np.bool_] = np.einsum("ij,ij->i", rows, rows, dtype=np.float64) <= LONGEST**2
    return fine


def refuse_unusable(vectors: Vectors, what: str) -> None:
    """Refuse vectors that cannot be compared."""
    if not usable(vectors).all():
        raise SearchError(f"{what} is not finite or far too long to be compared; check the model that made it")
