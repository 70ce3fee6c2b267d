from __future__ import annotations

import pytest
import torch

from holdfast.models import Embedder
from holdfast.models.bank import batchnorm_layers


@pytest.mark.parametrize(
    ("policy", "statistics_move", "affine_trains"),
    [("train", True, True), ("freeze-statistics", False, True), ("freeze", False, False)],
)
def test_policies(policy: str, statistics_move: bool, affine_trains: bool) -> None:
    embedder = Embedder("conv-tiny", dim=8, batchnorm=policy).eval().train()  # type: ignore[arg-type]
    layer = next(batchnorm_layers(embedder))
    before = layer.running_mean.clone()  # type: ignore[union-attr]
    embedder(torch.rand(8, 3, 32, 32)).sum().backward()
    assert torch.equal(before, layer.running_mean) != statistics_move  # type: ignore[arg-type]
    assert (layer.weight.grad is not None) == affine_trains
    assert embedder.head.weight.grad is not None


def test_eval_mode_is_eval_for_every_policy() -> None:
    for policy in ("train", "freeze-statistics", "freeze"):
        embedder = Embedder("conv-tiny", batchnorm=policy).eval()  # type: ignore[arg-type]
        assert not any(m.training for m in embedder.modules())
