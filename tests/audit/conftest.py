"""A small model that has learnt something, and the images to audit it on."""

from __future__ import annotations

import os
import time
from pathlib import Path

import numpy as np
import pytest
import zoo_models
from zoo_audits import Calibration

import holdfast
from holdfast.data import ImageTable
from holdfast.locks import InUse
from holdfast.models import Embedder

SIZE = 16
"""Of its images: a quarter of the usual pixels, and as easily attacked."""

RECIPE = {
    "data": {"name": "glyphs", "characters": 300, "per_class": 10, "size": SIZE, "validation": 0},
    "model": {"backbone": "conv-tiny", "dim": 32, "size": SIZE, "canvas": SIZE},
    "batch": {"classes": 28, "per_class": 4},
    "augment": {"name": "random-crop", "padding": 1, "flip": False},
    "loss": {"name": "multi-similarity", "miner": "multi-similarity"},
    "optimizer": {"name": "adam", "lr": 0.003},
    "epochs": 40,
}


@pytest.fixture(scope="session")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Trained once, also where several processes share the tests."""
    base = tmp_path_factory.getbasetemp()
    folder = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "audited"
    while True:
        try:
            return holdfast.train(RECIPE, out=folder).folder
        except InUse:
            time.sleep(0.5)


@pytest.fixture
def model(run: Path) -> Embedder:
    return Embedder.from_pretrained(str(run / "model"))


@pytest.fixture(scope="session")
def table() -> ImageTable:
    """Thirty unseen characters, ten images each."""
    return _thirty("test")


@pytest.fixture(scope="session")
def learnt() -> ImageTable:
    """Thirty characters that the model was trained on."""
    return _thirty("train")


def _thirty(split: str) -> ImageTable:
    part = holdfast.data.load(RECIPE["data"]).split(split)
    return part.subset(np.isin(part.labels, np.unique(part.labels)[:30]))


@pytest.fixture(scope="session")
def calibration(tmp_path_factory: pytest.TempPathFactory) -> Calibration:
    """Trains what it is asked about, once for all processes."""
    base = tmp_path_factory.getbasetemp()
    return Calibration(zoo_models.Trained(zoo_models.shared_folder(base)), zoo_models.images())
