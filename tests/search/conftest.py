"""Indexes of every kind over the same vectors."""

from __future__ import annotations

import itertools
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from holdfast.search import Index, ModelFacts
from holdfast.search.collection import Collection
from holdfast.search.milvus import MilvusIndex
from holdfast.view import View
from index_cases import IndexOf, images_of, index_of


@pytest.fixture
def index_of_kind(tmp_path: Path) -> IndexOf:
    """From vectors and a kind to an index of images v0, v1, ..., ready to be searched the way its kind does."""
    number = itertools.count()

    def make(vectors: NDArray[np.float32], kind: str) -> Index:
        if kind != "milvus":
            index = index_of(vectors, kind)
            index.prepare()
            return index
        pytest.importorskip("pymilvus", reason="pip install 'holdfast[milvus]'")
        collection = Collection(str(tmp_path / "milvus.db"), f"holdfast_{next(number)}", vectors.shape[1])
        collection.create()
        facts = ModelFacts("nobody", "", View(32), vectors[:1])
        return MilvusIndex(collection, model=facts, kind=kind).extended(vectors, images_of(len(vectors)))

    return make
