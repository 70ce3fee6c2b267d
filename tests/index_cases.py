"""A small model, and pictures to index."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from holdfast.data import ImageTable
from holdfast.data.sources import ArraySource
from holdfast.models import Embedder
from holdfast.search import Index, IndexedImages, MemoryIndex, ModelFacts, create_index
from holdfast.search.kinds import kind_for
from holdfast.view import View

IndexOf = Callable[[NDArray[np.float32], str], Index]
"""Vectors and a kind to an index."""


def small_model(seed: int = 0) -> Embedder:
    torch.manual_seed(seed)
    return Embedder("conv-tiny", dim=8).eval()


def pictures(count: int, seed: int = 0) -> NDArray[np.uint8]:
    """Blocky random pictures of 32 pixels, all different."""
    coarse = np.random.default_rng(seed).integers(0, 256, (count, 8, 8, 3), dtype=np.uint8)
    return coarse.repeat(4, 1).repeat(4, 2)


def picture_table(pixels: NDArray[np.uint8], first: int = 0, classes: int = 5) -> ImageTable:
    """Pictures called picture-0, picture-1, ... of a few classes."""
    count = len(pixels)
    return ImageTable.of(
        ArraySource(pixels),
        classes=[f"class {(first + i) % classes}" for i in range(count)],
        splits=["test"] * count,
        ids=[f"picture-{first + i}" for i in range(count)],
        name="pictures",
    )


def made(folder: Path, count: int = 30, **options: Any) -> Index:
    """An index of pictures in a folder."""
    return create_index(folder, small_model(), picture_table(pictures(count)), **options)[0]


def unit_vectors(count: int, dim: int, seed: int = 0, clusters: int = 0) -> NDArray[np.float32]:
    """Random directions, around a few centres if asked."""
    draw = np.random.default_rng(seed)
    vectors = draw.standard_normal((count, dim))
    if clusters:
        centres = 2 * draw.standard_normal((clusters, dim))
        vectors = centres[draw.integers(clusters, size=count)] + vectors
    return (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float32)


def images_of(count: int, first: int = 0) -> IndexedImages:
    """Images v0, v1, ... of two labels and three groups."""
    fingerprints = np.random.default_rng(9 + first).integers(0, 256, (count, 16), dtype=np.uint8)
    numbers = range(first, first + count)
    ids, labels = [f"v{i}" for i in numbers], [f"label {i % 2}" for i in numbers]
    return IndexedImages(ids, labels, [f"group {i % 3}" for i in numbers], fingerprints)


def index_of(vectors: NDArray[np.float32], kind: str | None = None) -> MemoryIndex:
    """An index of vectors that no model made."""
    facts = ModelFacts("nobody", "", View(32), vectors[:1])
    return MemoryIndex(vectors, images_of(len(vectors)), model=facts, kind=kind_for(len(vectors), kind))
