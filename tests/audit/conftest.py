"""A small model that has learnt something, and the images to audit it on."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import holdfast
from holdfast.data import ImageTable
from holdfast.models import Embedder

RECIPE = {
    "data": {"name": "glyphs", "characters": 300, "per_class": 10, "validation": 0},
    "model": {"backbone": "conv-tiny", "dim": 32},
    "batch": {"classes": 28, "per_class": 4},
    "augment": {"name": "random-crop", "padding": 2, "flip": False},
    "loss": {"name": "multi-similarity", "miner": "multi-similarity"},
    "optimizer": {"name": "adam", "lr": 0.003},
    "epochs": 40,
}


@pytest.fixture(scope="session")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return holdfast.train(RECIPE, out=tmp_path_factory.mktemp("audited") / "run").folder


@pytest.fixture
def model(run: Path) -> Embedder:
    return Embedder.from_pretrained(str(run / "model"))


@pytest.fixture(scope="session")
def table() -> ImageTable:
    """Thirty unseen characters, ten pictures each."""
    test = holdfast.data.load(RECIPE["data"]).split("test")
    return test.subset(np.isin(test.labels, np.unique(test.labels)[:30]))
