"""An honest model raises no error, however it was trained and whatever numbers it computes with."""

from __future__ import annotations

import pytest
from torch import nn
from zoo_audits import Calibration
from zoo_models import HONEST, Half, Int8

from holdfast import audit
from holdfast.data import ImageTable
from holdfast.models import Embedder

SIZE = 16
"""Of the images of the small model."""


def test_the_list_is_long_enough() -> None:
    assert len(HONEST) >= 15


@pytest.mark.parametrize("wrapped", [Half, Int8])
def test_another_number_format_is_no_error(wrapped: type[nn.Module], model: Embedder, table: ImageTable) -> None:
    found = audit.run(wrapped(model).eval(), table, limit=20, size=SIZE).document["flags"]
    assert [flag for flag in found if flag["level"] == "error"] == []


@pytest.mark.slow
@pytest.mark.parametrize("name", HONEST)
def test_an_honest_model_raises_no_error(name: str, calibration: Calibration) -> None:
    assert calibration.honest(name).errors == []
