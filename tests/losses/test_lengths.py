"""A warning for vectors that are not of unit length, where a loss assumes them."""

from __future__ import annotations

import warnings

import pytest
import torch
from loss_batches import batch

from holdfast import losses

ANY_LENGTH = {"contrastive", "triplet", "lifted-structure", "margin", "linear", "n-pair"}
ANY_LENGTH |= {"arcface", "normalized-softmax", "proxy-anchor", "proxy-nca", "soft-triple"}  # these scale them


@pytest.mark.parametrize("name", [name for name in losses.names() if name not in ("trimmed", "s2sd")])
def test_a_loss_for_unit_vectors_says_so_once(name: str) -> None:
    z, labels = batch()
    assert losses.build(name).unit_vectors == (name not in ANY_LENGTH)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        losses.build(name)(z, labels)
        losses.build(name)(z.bfloat16(), labels)
    loss = losses.build(name)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        for _ in range(3):
            loss(30 * z, labels)
    lines = [str(line.message) for line in said if "unit length" in str(line.message)]
    assert len(lines) == (name not in ANY_LENGTH)
    assert all(
        "lengths from 30 to 30; scale them: torch.nn.functional.normalize(embeddings, dim=1)" in t for t in lines
    )


def test_only_the_first_batch_is_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each look makes a GPU wait."""
    z, labels = batch()
    loss, looks, norm = losses.build("multi-similarity"), [], torch.linalg.vector_norm
    monkeypatch.setattr(torch.linalg, "vector_norm", lambda *given, **more: looks.append(1) or norm(*given, **more))
    for _ in range(3):
        loss(z, labels)
    assert len(looks) == 1
