"""Indexes whose vectors are in Milvus, for more images than a machine holds."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import ClassVar

import numpy as np

from holdfast.processes import current_processes
from holdfast.search.collection import Collection
from holdfast.search.flat import Vectors
from holdfast.search.index import Filter, Index, IndexedImage, IndexedImages, SearchResult, refuse_unusable


@dataclasses.dataclass(frozen=True)
class MilvusIndex(Index):
    """An index in Milvus; of several processes, the main one alone speaks to it.

    Images that were added stay, whatever happens afterwards.

    Args:
        collection: what holds the vectors.
    """

    block: ClassVar[int | None] = 4_096

    collection: Collection

    def __len__(self) -> int:
        return current_processes().tell(lambda: len(self.collection))

    def known(self, ids: Sequence[str]) -> Mapping[str, IndexedImage]:
        """Those of some names that are in it."""
        return self.collection.known(ids)

    def vectors_of(self, ids: Sequence[str]) -> Vectors:
        """The vectors of images that are in it."""
        return np.array(current_processes().tell(lambda: self.collection.vectors(ids).tolist()), np.float32)

    def extended(self, vectors: Vectors, images: IndexedImages) -> MilvusIndex:
        """The index with more images; one whose id is there already takes the old one's place."""
        refuse_unusable(vectors, "a vector")
        current_processes().tell(lambda: self.collection.put(vectors, images))
        return self

    def settle(self) -> None:
        """Put away what was added, so that it is found as quickly as the rest."""
        current_processes().tell(self.collection.settle)

    def _nearest(self, queries: Vectors, k: int, where: Filter) -> SearchResult:
        vectors, ids, images = [np.empty((0, self.dim), np.float32)], list[str](), list[IndexedImage]()
        rows = np.full((len(queries), k), -1, np.int64)
        for row, (near, names, shown) in enumerate(self.collection.nearest(queries, k, where)):
            rows[row, : len(names)] = np.arange(len(ids), len(ids) + len(names))
            vectors.append(near)
            ids += names
            images += shown
        digests = np.frombuffer(b"".join(image.fingerprint for image in images), np.uint8).reshape(-1, 16)
        found = IndexedImages(ids, [image.label for image in images], [image.group for image in images], digests)
        return SearchResult.among(np.concatenate(vectors), found, queries, rows)
