"""An honest model raises no error, however it was trained and whatever numbers it computes with."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn
from zoo_audits import Calibration, audited
from zoo_models import HONEST, Half, Int8
from zoo_oracle import EPS, recall, seen

import holdfast
from holdfast.attacks.frozen import frozen
from holdfast.audit import ers
from holdfast.audit.masking import find_masking
from holdfast.audit.plan import Passes, Progress
from holdfast.data import ImageTable
from holdfast.models import Embedder, load_model


def test_the_list_is_long_enough() -> None:
    assert len(HONEST) >= 15


@pytest.mark.parametrize("wrapped", [Half, Int8])
def test_another_number_format_is_no_error(
    wrapped: type[nn.Module], model: Embedder, table: ImageTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ers, "STEPS", 8)
    honest = wrapped(model).eval()
    with frozen(honest), torch.random.fork_rng():
        assert audited(*seen(honest, table, 20, model.size)).errors == []


@pytest.mark.slow
@pytest.mark.parametrize("name", HONEST)
def test_an_honest_model_raises_no_error(name: str, calibration: Calibration) -> None:
    assert calibration.honest(name).errors == []


@pytest.mark.slow
def test_a_published_backbone_raises_no_error_on_photographs(shared: Path) -> None:
    """Many pixels and a steep network: a step of 1/255 along the gradient is a long one."""
    model = load_model(f"torchvision:mobilenet_v2@{shared}/mobilenet_v2-imagenet.safetensors")
    birds = holdfast.data.load(f"cub:{shared}").split("test")
    birds = birds.subset(np.isin(birds.labels, np.unique(birds.labels)[::20]))
    with frozen(model), torch.random.fork_rng():
        subject, _ = seen(model, birds, 8)
        assert recall(subject) >= 60
        assert find_masking(subject, EPS, {}, Progress(Passes())).flags == []
