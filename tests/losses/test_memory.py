"""Cross-batch memory."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch
from loss_batches import batch, value_and_gradient
from peer_losses import SAME, assert_same, both, distances, mean, peers, reducers, tangent
from torch import Generator, Tensor
from torch._subclasses.fake_tensor import DataDependentOutputException, FakeTensorMode
from torch.nn import functional as F

from holdfast import losses, mining, pair_matrix
from holdfast.errors import DataError, ModelError, RecipeError
from holdfast.losses import Criterion, Encoded, TupleLoss
from holdfast.mining import Miner, Random, Recalled, Triplets, Tuples

peer_miners = pytest.importorskip("pytorch_metric_learning.miners")

DIM, MEMORY, STEPS = 12, 40, 5
TUPLE_LOSSES = [name for name in losses.names() if isinstance(losses.build(name), TupleLoss)]
REMEMBERED = {
    **{name: pair for name, pair in SAME.items() if name not in ("triplet-cosine", "lifted-structure")},
    "triplet-cosine": (
        {},
        lambda: peers.TripletMarginLoss(
            margin=0,
            smooth_loss=True,
            distance=distances.DotProductSimilarity(normalize_embeddings=False),
            reducer=mean(),
        ),
    ),
}


def steps(count: int = STEPS, classes: int = 4) -> list[tuple[Tensor, Tensor]]:
    return [batch(seed, classes=classes, per_class=4, dim=DIM) for seed in range(count)]


def peer_memory(loss: Any, size: int = MEMORY, miner: Any = None) -> Any:
    if isinstance(loss, peers.CircleLoss):
        loss.reducer = reducers.AvgNonZeroReducer()
    return peers.CrossBatchMemory(loss, DIM, memory_size=size, miner=miner)


def assert_equal_steps(ours: losses.Loss, theirs: Any) -> None:
    """Over batches that fill the memory and run over its end."""
    for z, labels in steps():
        value, gradient = value_and_gradient(ours, z, labels)
        peer_value, peer_gradient = value_and_gradient(theirs, z, labels)
        assert_same((value, tangent(z, gradient)), (peer_value, tangent(z, peer_gradient)))
    assert value != value_and_gradient(theirs.loss, z, labels)[0]


@pytest.mark.parametrize("name", REMEMBERED)
def test_equals_the_peer_over_several_steps(name: str) -> None:
    arguments, peer = REMEMBERED[name]
    assert_equal_steps(losses.build(name.split()[0], **arguments, memory=MEMORY), peer_memory(peer()))


@pytest.mark.parametrize("name", ["multi-similarity", "contrastive", "triplet", "info-nce", "sup-con", "margin"])
def test_equals_the_peer_with_a_miner(name: str) -> None:
    arguments, peer = SAME[name]
    ours = losses.build(name, **arguments, miner="multi-similarity", memory=MEMORY)
    assert_equal_steps(ours, peer_memory(peer(), miner=peer_miners.MultiSimilarityMiner(epsilon=0.1)))


def test_lifted_structure_equals_the_peer_where_the_batch_comes_first_in_its_queue() -> None:
    """Elsewhere the peer takes the number of a place in its queue for that of an image of the batch."""
    ours, theirs = losses.build("lifted-structure", memory=32), peer_memory(peers.LiftedStructureLoss(), 32)
    for number, (z, labels) in enumerate(steps()):
        value, gradient = value_and_gradient(ours, z, labels)
        peer_value, peer_gradient = value_and_gradient(theirs, z, labels)
        if number % 2 == 0:
            assert_same((value, tangent(z, gradient)), (peer_value, tangent(z, peer_gradient)))


@pytest.mark.parametrize("name", ["contrastive", "info-nce", "multi-similarity", "circle", "sup-con"])
@pytest.mark.parametrize("mined", [False, True])
def test_given_tuples_are_learnt_beside_as_the_peer_does(name: str, mined: bool) -> None:
    """Our indices are those of the batch, the peer's those of its queue."""
    ours, peer = both(name, SAME[name])
    ours = losses.build(name, **SAME[name][0], miner="multi-similarity" if mined else None, memory=MEMORY)
    theirs = peer_memory(peer, miner=peer_miners.MultiSimilarityMiner(epsilon=0.1) if mined else None)
    for z, labels in steps():
        triplets = peer_miners.TripletMarginMiner(margin=0.1)(z, labels)
        place = [index if row == 0 else (index + theirs.queue_idx) % MEMORY for row, index in enumerate(triplets)]
        value, gradient = value_and_gradient(ours, z, labels, triplets)
        peer_value, peer_gradient = value_and_gradient(theirs, z, labels, tuple(place))
        assert_same((value, tangent(z, gradient)), (peer_value, tangent(z, peer_gradient)))


@pytest.mark.parametrize("name", TUPLE_LOSSES)
def test_a_first_batch_is_compared_with_itself_held_constant(name: str) -> None:
    z, labels = batch(1, dim=DIM)
    loss = losses.build(name, memory=len(z))
    value, gradient = value_and_gradient(loss, z, labels)
    again, _ = value_and_gradient(loss, z, labels)  # the memory holds one batch
    torch.testing.assert_close(value, again)
    if name != "n-pair":
        torch.testing.assert_close(value, value_and_gradient(losses.build(name), z, labels)[0], rtol=1e-4, atol=1e-5)
    assert gradient.norm() > 1e-3


@pytest.mark.parametrize("miner", mining.names())
def test_miners_look_into_the_memory(miner: str) -> None:
    """What a miner finds there is what it finds in one batch of all, of the anchors that are new."""
    old, new = steps(2)
    z, labels = torch.cat([old[0], new[0]]), torch.cat([old[1], new[1]])
    recalled = Recalled(z, labels, torch.arange(len(z)))
    build = mining.build(miner)
    found = build(*new, Generator().manual_seed(0), recalled=recalled)
    others = found[1:] if isinstance(found, Triplets) else found[1:2]
    assert any(bool((index < len(old[0])).any()) for index in others)
    own = found.anchor + len(old[0])
    same = torch.ones_like(own, dtype=torch.bool) if isinstance(found, Triplets) else found[2]
    assert (labels[own] == labels[found[1]])[same].all()
    assert (own != found[1])[same].all()
    if miner in ("ephn", "multi-similarity"):  # nothing is drawn
        whole = build(z, labels)
        rows = whole.anchor >= len(old[0])
        for one, two in zip(found[1:], whole[1:], strict=True):
            assert torch.equal(one, two[rows])
        assert torch.equal(own, whole.anchor[rows])


def test_copies_of_an_image_in_the_memory_are_no_positives_for_miners() -> None:
    z, labels = batch(2, classes=3, per_class=2, dim=DIM)
    numbers = torch.arange(len(z))

    class Spy(Random):
        def mine(self, found: Any, generator: Generator | None = None) -> Triplets:
            self.positives = found.positive
            return super().mine(found, generator)

    spy = Spy()
    criterion = Criterion(losses.build("triplet", miner=spy, memory=64))
    for _ in range(2):
        criterion(Encoded(z, z, labels, numbers), generator=Generator().manual_seed(0))
    assert spy.positives.shape == (6, 12)
    assert spy.positives.sum(1).tolist() == [2] * 6  # the other image of the class, twice


@pytest.mark.parametrize("name", ["multi-similarity", "triplet"])
def test_the_state_has_the_memory(name: str) -> None:
    build: Callable[[], losses.Loss] = lambda: losses.build(name, miner="distance", memory=MEMORY)  # noqa: E731
    loss, fresh = build(), build()
    for z, labels in steps(3):
        value_and_gradient(loss, z, labels)
    fresh.load_state_dict(loss.state_dict())
    for number, (z, labels) in enumerate(steps(3, classes=5)):
        assert_same(value_and_gradient(fresh, z, labels, seed=number), value_and_gradient(loss, z, labels, seed=number))
    assert losses.build(name).state_dict().keys().isdisjoint(loss.state_dict())
    assert copy.deepcopy(loss).queue is not loss.queue


def test_nothing_is_remembered_in_eval_mode() -> None:
    (z, labels), (other, _) = steps(2)
    loss = losses.build("contrastive", memory=MEMORY)
    loss(z, labels)
    loss.eval()
    assert loss(other, labels) == loss(other, labels)
    assert len(loss.queue) == len(z)
    loss.queue.reset()
    assert len(loss.queue) == 0


def test_gradients_reach_the_batch_alone() -> None:
    (z, labels), (other, other_labels) = steps(2)
    loss = losses.build("sup-con", memory=MEMORY)
    first = z.clone().requires_grad_()
    loss(first, labels)
    second = other.clone().requires_grad_()
    loss(second, other_labels).backward()
    assert first.grad is None
    assert second.grad is not None
    assert not loss.queue.vectors.requires_grad


def test_half_precision_is_remembered_in_single() -> None:
    z, labels = batch(dim=DIM)
    loss = losses.build("multi-similarity", memory=MEMORY)
    loss(z.bfloat16(), labels)
    assert loss.queue.vectors.dtype == torch.float32


class OldMiner(Miner):
    """A user's, of before memories."""

    def __call__(
        self, embeddings: Tensor, labels: Tensor, generator: Generator | None = None, images: Tensor | None = None
    ) -> Tuples:
        return Random()(embeddings, labels, generator, images)


def test_mistakes_get_one_line() -> None:
    z, labels = batch(dim=DIM)
    with pytest.raises(RecipeError, match="memory is a number of embeddings"):
        losses.build("triplet", memory=0)
    with pytest.raises(DataError, match="batch of 15 does not fit into a memory of 8"):
        losses.build("triplet", memory=8)(z, labels)
    with pytest.raises(DataError, match="relevance matrix"):
        losses.build("triplet", memory=MEMORY)(z, labels[:, None] == labels)
    with pytest.raises(RecipeError, match="OldMiner does not mine in a memory"):
        losses.build("triplet", memory=MEMORY, miner=OldMiner())
    loss = losses.build("triplet", memory=MEMORY)
    loss(z, labels)
    with pytest.raises(ModelError, match="holds 12 dims but got 6"):
        loss(F.normalize(z[:, :6], dim=1), labels)
    with pytest.raises(DataError, match="give one label"):
        loss(z, labels[:-1])


@pytest.mark.parametrize("name", ["contrastive", "multi-similarity", "triplet", "n-pair"])
def test_no_step_but_the_first_asks_the_device_for_a_value(name: str) -> None:
    """Tensors without values, as a compiler has them, refuse to be read."""
    loss = losses.build(name, memory=MEMORY)
    z, labels = batch(dim=DIM)
    loss(z, labels)
    with FakeTensorMode(allow_non_fake_inputs=True) as unknown:
        vectors, classes = unknown.from_tensor(z).requires_grad_(), unknown.from_tensor(labels)
        with pytest.raises(DataDependentOutputException):
            losses.build("multi-similarity")(vectors, classes)  # looks at the lengths of its first batch
        for _ in range(2):
            loss(vectors, classes).backward()
    assert len(loss.queue) == MEMORY


@pytest.mark.parametrize("name", TUPLE_LOSSES)
def test_the_ways_through_large_batches_are_the_same_beside_a_memory(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = []
    for large in (1, 10**9):
        monkeypatch.setattr(pair_matrix, "LARGE", large)
        monkeypatch.setattr(pair_matrix, "SMALL", large)
        loss = losses.build(name, memory=256)
        for seed in range(3):
            result = value_and_gradient(loss, *batch(seed, classes=64, per_class=2, dim=DIM))
        found.append(result)
    assert_same(*found)


def test_labels_that_a_later_batch_cannot_hold_stay_apart() -> None:
    z = F.normalize(torch.randn(4, DIM), dim=1)
    loss = losses.build("contrastive", memory=MEMORY)
    loss(z, torch.arange(300, 304))
    loss(z, torch.arange(44, 48, dtype=torch.uint8))
    assert loss.queue.labels.tolist() == [*range(300, 304), *range(44, 48)]
    assert (loss.queue.images == -1).all()
