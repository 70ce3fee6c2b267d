"""An honest model raises no error, however it was trained and whatever numbers it computes with."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from zoo_audits import Calibration, audited
from zoo_models import HONEST, Half, Int8
from zoo_oracle import seen

from holdfast.attacks.frozen import frozen
from holdfast.audit import ers
from holdfast.data import ImageTable
from holdfast.models import Embedder


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
