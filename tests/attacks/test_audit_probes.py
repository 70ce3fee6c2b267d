"""The audit's probes on data of a few images, without training a model."""

from __future__ import annotations

from typing import Any, cast

import pytest
import torch
from attack_cases import seeded
from torch import Tensor, nn

from holdfast.attacks import References
from holdfast.audit.stax import Stax
from holdfast.audit.subject import Subject
from holdfast.errors import RecipeError


def subject(model: nn.Module, labels: Tensor, seed: int = 0) -> Subject:
    arguments: dict[str, Any] = {"store": cast(Any, None), "size": 4, "std": torch.ones(3)}
    references = References(torch.randn(len(labels), 48, generator=seeded()), labels)
    rows = torch.arange(len(labels))
    return Subject(model=model, labels=labels, references=references, rows=rows, seed=seed, **arguments)


def test_stax_counts_classes_first() -> None:
    few = subject(nn.Flatten(), torch.arange(20) % 5)
    with pytest.raises(RecipeError, match="six or more classes, this data has 5; use --protocol ers or adml"):
        Stax().parts(few)
    assert len(Stax().parts(subject(nn.Flatten(), torch.arange(24) % 6))) == 4
