"""Index tuples of pytorch-metric-learning, given to our losses and made by our miners."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from loss_batches import batch, value_and_gradient
from peer_losses import SAME, assert_same, both, reducers, tangent
from torch import Tensor

from holdfast import losses, mining
from holdfast.errors import DataError
from holdfast.mining import Pairs, Triplets

miners = pytest.importorskip("pytorch_metric_learning.miners")
utils = pytest.importorskip("pytorch_metric_learning.utils.loss_and_miner_utils")

MINED: dict[str, Any] = {
    "triplets": lambda z, labels: miners.TripletMarginMiner(margin=0.3, type_of_triplets="all")(z, labels),
    "pairs": lambda z, labels: miners.MultiSimilarityMiner(epsilon=0.1)(z, labels),
    "all pairs": lambda z, labels: utils.get_all_pairs_indices(labels),
}


@pytest.mark.parametrize("kind", MINED)
@pytest.mark.parametrize("name", SAME)
def test_of_the_peers_miners_have_its_losses(name: str, kind: str) -> None:
    """Triplets repeat their pairs: where the peer counts each of them, so do we."""
    z, labels = batch(3, classes=6, per_class=4, dim=16)
    indices = MINED[kind](z, labels)
    assert len(indices) == (3 if kind == "triplets" else 4)
    ours, theirs = both(name, SAME[name])
    if name == "circle":  # its default
        theirs.reducer = reducers.AvgNonZeroReducer()
    value, gradient = value_and_gradient(ours, z, labels, indices)
    peer_value, peer_gradient = value_and_gradient(theirs, z, labels, indices)
    assert_same((value, tangent(z, gradient)), (peer_value, tangent(z, peer_gradient)))
    assert kind == "all pairs" or value != value_and_gradient(ours, z, labels)[0]


def every_loss() -> list[str]:
    return [name for name in losses.names() if name not in ("trimmed", "s2sd")]


@pytest.mark.parametrize("name", every_loss())
@pytest.mark.parametrize("miner", ["semihard", "multi-similarity"])
def test_of_our_miners_are_what_the_miner_found(name: str, miner: str) -> None:
    z, labels = batch(4)
    tuples = mining.build(miner)(z, labels, torch.Generator().manual_seed(0))
    indices = tuples.indices_tuple
    assert type(indices) is tuple
    assert all(isinstance(index, Tensor) for index in indices)
    torch.manual_seed(0)
    loss = losses.build(name)
    expected = value_and_gradient(loss, z, labels, tuples)
    assert_same(value_and_gradient(loss, z, labels, indices), expected)


def test_pairs_and_triplets_as_the_peer_writes_them() -> None:
    same = torch.tensor([True, False, True])
    pairs = Pairs(torch.tensor([0, 0, 1]), torch.tensor([1, 2, 0]), same)
    assert [index.tolist() for index in pairs.indices_tuple] == [[0, 1], [1, 0], [0], [2]]
    triplets = Triplets(torch.tensor([0]), torch.tensor([1]), torch.tensor([2]))
    assert [index.tolist() for index in triplets.indices_tuple] == [[0], [1], [2]]


def test_another_number_of_indices_is_refused() -> None:
    z, labels = batch()
    index = torch.tensor([0])
    with pytest.raises(DataError, match=r"3 tensors .* or 4 .* got 2"):
        losses.build("contrastive")(z, labels, (index, index))
