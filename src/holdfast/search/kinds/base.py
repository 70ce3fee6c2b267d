"""The contract of a search structure."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar, TypeAlias

import numpy as np
from numpy.typing import NDArray

from holdfast.errors import SearchError

Vectors: TypeAlias = NDArray[np.float32]
Rows: TypeAlias = NDArray[np.int64]
Arrays: TypeAlias = dict[str, NDArray[Any]]


class Structure(ABC):
    """Finds the nearest of some vectors with FAISS.

    FAISS's own files are never read: they are trusted by the library that reads them. What a structure is made of is
    stored as plain arrays, and `restore` builds the FAISS object again from arrays it has checked.
    """

    name: ClassVar[str]

    @classmethod
    @abstractmethod
    def build(cls, vectors: Vectors, seed: int) -> Structure:
        """A structure over vectors."""

    @classmethod
    @abstractmethod
    def restore(cls, vectors: Vectors, arrays: Mapping[str, NDArray[Any]]) -> Structure:
        """The structure whose `arrays` were stored; `SearchError` where they cannot be a structure over the vectors."""

    @abstractmethod
    def arrays(self) -> Arrays:
        """What `restore` needs beside the vectors."""

    @abstractmethod
    def grown(self, vectors: Vectors, kept: Rows, seed: int) -> Structure:
        """A structure over vectors of which the first ones are the old rows `kept`, and the others new."""

    @abstractmethod
    def search(self, queries: Vectors, k: int) -> Rows:
        """Rows of about the k nearest vectors of each query, -1 where fewer were found."""


LONGEST = 1e12
"""Length of a vector beyond any model's, at which the square of a distance is still far from overflowing 32 bits."""


def usable(rows: Vectors) -> NDArray[np.bool_]:
    """Which rows are finite, and short enough that their distances are finite, too; needs no second array as large."""
    fine: NDArray[np.bool_] = np.einsum("ij,ij->i", rows, rows, dtype=np.float64) <= LONGEST**2
    return fine


def damaged(what: str) -> SearchError:
    """One line on arrays that do not fit."""
    return SearchError(f"the index is damaged: {what}; build it again with `holdfast index`")


def require(arrays: Mapping[str, NDArray[Any]], name: str, dtype: type, ndim: int) -> NDArray[Any]:
    """An array of the right type and rank."""
    array = arrays.get(name)
    if array is None or array.dtype != np.dtype(dtype) or array.ndim != ndim:
        raise damaged(f"'{name}' is missing or of another type or rank")
    return np.ascontiguousarray(array)
