"""Shared fixtures: a recipe that trains in about a second."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from holdfast.audit import ensemble, ers, plan, probes, subject
from holdfast.report import origin
from small_photos import draw_photos

pytest_plugins = ["browser"]

SHARED = Path(__file__).resolve().parents[1].parent / "shared" / "data"

TINY: dict[str, Any] = {
    "data": {"name": "glyphs", "characters": 40, "per_class": 6, "validation": 0.2},
    "model": {"backbone": "conv-tiny", "dim": 16},
    "batch": {"classes": 6, "per_class": 3},
    "augment": {"name": "random-crop", "padding": 2},
    "loss": {"name": "margin", "miner": "distance"},
    "optimizer": {"name": "adam", "lr": 0.003, "loss_lr": 0.01},
    "epochs": 3,
    "evaluate_every": 1,
    "log_every": 2,
    "checkpoint_every": 4,
}


@pytest.fixture
def tiny() -> dict[str, Any]:
    """A recipe as plain data; change it freely."""
    return copy.deepcopy(TINY)


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    """A user's folder: twelve classes of five noisy pictures each."""
    return draw_photos(tmp_path)


@pytest.fixture
def shared() -> Path:
    """The folder with datasets and weights that are not part of the project."""
    if not SHARED.is_dir():
        pytest.skip("no shared data here")
    return SHARED


@pytest.fixture(scope="module")
def few_steps() -> Iterator[None]:
    """Attacks of audits and pages take four steps: for tests that they are made, whatever they achieve."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ers, "STEPS", 4)
        patch.setattr(origin, "STEPS", 4)
        yield


@pytest.fixture(autouse=True, scope="module")
def _short_probe(request: pytest.FixtureRequest) -> Iterator[None]:
    """Ensemble and checks for masked gradients take less effort, except in the tests of what they find."""
    with pytest.MonkeyPatch.context() as patch:
        if request.path.name != "test_ensemble.py":
            patch.setattr(ensemble, "STEPS", 2)
            patch.setattr(subject, "SQUARE_QUERIES", 5)
        if request.path.name not in ("test_flags.py", "test_masking.py", "test_fakes.py", "test_honest_models.py"):
            for name, few in (("IMAGES", 8), ("STEPS", 4), ("QUERIES", 10)):
                patch.setattr(probes, name, few)
        patch.setattr(plan, "PROBE_SECONDS", 0.0)
        yield


@pytest.fixture(autouse=True, scope="session")
def _own_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Nothing is kept in the user's cache."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HOLDFAST_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield


@pytest.fixture(autouse=True)
def _one_seed() -> None:
    torch.manual_seed(0)
