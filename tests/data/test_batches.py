from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.utils.data import DataLoader, TensorDataset

from holdfast.data import SAMPLERS, Batches, ClassBalancedBatchSampler, ClassBatches, PairBatches
from holdfast.errors import DataError

shapes = st.tuples(
    st.lists(st.integers(1, 7), min_size=1, max_size=12),  # images of each class
    st.integers(1, 6),  # classes in a batch
    st.integers(1, 4),  # images of each
    st.integers(0, 3),  # epoch
)


def labels_of(sizes: list[int]) -> np.ndarray:
    """Scattered rows and labels with gaps."""
    labels = np.repeat(np.arange(len(sizes)) * 3 + 5, sizes)
    return np.random.default_rng(0).permutation(labels)


@given(shapes)
@settings(deadline=None)
def test_what_every_epoch_promises(shape: tuple[list[int], int, int, int]) -> None:
    sizes, classes, per_class, epoch = shape
    labels = labels_of(sizes)
    if len(sizes) < classes:
        with pytest.raises(DataError, match=r"lower .*batch\.classes"):
            ClassBatches(labels, classes, per_class, seed=0)
        return
    batches = ClassBatches(labels, classes, per_class, seed=0)
    batches.set_epoch(epoch)
    dealt = list(batches)
    assert len(dealt) == len(batches) == max(-(-len(sizes) // classes), len(labels) // (classes * per_class))
    size_of = Counter(labels.tolist())
    for rows in dealt:
        assert rows.dtype == torch.int64
        grouped = labels[rows.numpy()].reshape(classes, per_class)
        assert (grouped == grouped[:, :1]).all()
        assert len(set(grouped[:, 0])) == classes
        for label, group in zip(grouped[:, 0], rows.view(classes, per_class).tolist(), strict=True):
            counts = Counter(group)
            assert len(counts) == min(per_class, size_of[label])
            assert max(counts.values()) - min(counts.values()) <= 1
    rows = torch.cat(dealt).numpy()
    assert set(labels[rows]) == set(labels)


@given(shapes)
@settings(deadline=None)
def test_no_image_comes_up_again_before_the_others_of_its_class(shape: tuple[list[int], int, int, int]) -> None:
    sizes, classes, per_class, _ = shape
    if len(sizes) < classes:
        return
    labels = labels_of(sizes)
    used: Counter[int] = Counter()
    for rows in ClassBatches(labels, classes, per_class, seed=1):
        used.update(rows.tolist())
        for label in set(labels.tolist()):
            counts = [used[row] for row in np.flatnonzero(labels == label).tolist()]
            assert max(counts) - min(counts) <= 1


@pytest.mark.parametrize("sampler", SAMPLERS.values())
def test_batches_are_a_function_of_seed_and_epoch(sampler: type[Batches]) -> None:
    labels = np.repeat(np.arange(20), 5)

    def rows(seed: int, epoch: int, fresh: bool = True) -> list[list[int]]:
        batches = sampler(labels, 4, 2, seed)
        if not fresh:
            list(batches)
            batches.set_epoch(7)
            next(iter(batches))
        batches.set_epoch(epoch)
        return [batch.tolist() for batch in batches]

    assert rows(0, 3) == rows(0, 3, fresh=False)
    assert rows(0, 3) != rows(0, 4)
    assert rows(0, 3) != rows(1, 3)
    assert rows(0, 4) != rows(1, 3)


def test_impossible_shapes_are_refused() -> None:
    labels = torch.arange(8) // 2
    with pytest.raises(DataError, match="positive"):
        ClassBatches(labels, 2, 0, seed=0)


@settings(max_examples=30, deadline=None)
@given(groups=st.integers(1, 4), hand=st.integers(2, 5), seed=st.integers(0, 99))
def test_groups_need_only_their_own_classes_to_differ(groups: int, hand: int, seed: int) -> None:
    labels = np.repeat(np.arange(5), 8)
    batches = ClassBatches(labels, groups * hand, 2, seed, groups=groups)
    dealt = set()
    for rows in batches:
        for part in rows.chunk(groups):
            classes = labels[part.numpy()]
            assert len(part) == hand * 2
            assert len(set(classes)) == hand
            assert (classes[::2] == classes[1::2]).all()
            dealt |= set(classes)
    assert dealt == set(range(5))
    with pytest.raises(DataError, match=r"only 5 classes .* lower .*batch\.classes"):
        ClassBatches(labels, groups * 6, 2, seed, groups=groups)
    with pytest.raises(DataError, match="must be a multiple of the 2 groups"):
        ClassBatches(labels, 5, 2, seed, groups=2)


@given(shapes, st.integers(1, 3))
@settings(deadline=None)
def test_every_image_is_an_anchor_in_an_epoch_of_pairs(shape: tuple[list[int], int, int, int], groups: int) -> None:
    sizes, pairs, _, epoch = shape
    labels = labels_of(sizes)
    batches = PairBatches(labels, pairs * groups, 2, seed=0, groups=groups)
    batches.set_epoch(epoch)
    dealt = torch.stack(list(batches))
    assert dealt.shape == (len(batches), 2 * pairs * groups)
    assert len(batches) == -(-len(labels) // (pairs * groups))
    anchors, partners = dealt[:, 0::2].flatten().numpy(), dealt[:, 1::2].flatten().numpy()
    assert sorted(anchors[: len(labels)]) == list(range(len(labels)))  # the rest fills the last batch up
    assert (labels[anchors] == labels[partners]).all()


def test_partners_are_uniform_in_the_class() -> None:
    labels = labels_of([3, 5])
    batches, counts = PairBatches(labels, 4, 2, seed=1), Counter()
    for epoch in range(400):
        batches.set_epoch(epoch)
        counts.update((int(a), int(p)) for rows in batches for a, p in rows.view(-1, 2))
    for a in range(len(labels)):
        mates = np.flatnonzero(labels == labels[a])
        shares = np.array([counts[a, int(p)] for p in mates]) / 400
        assert sum(shares) == 1
        np.testing.assert_allclose(shares, 1 / len(mates), atol=0.09)


def test_pairs_are_of_two_images() -> None:
    with pytest.raises(DataError, match=r"batch\.per_class: 2"):
        PairBatches(labels_of([4, 4]), 2, 3, seed=0)


def test_a_data_loader_gets_the_batches_of_training_epoch_by_epoch() -> None:
    labels = [label for label in "abcde" for _ in range(7)]
    codes = np.unique(labels, return_inverse=True)[1]
    dataset = TensorDataset(torch.arange(35), torch.tensor(codes))
    sampler = ClassBalancedBatchSampler(labels, 3, 4, seed=5)
    epochs = [list(DataLoader(dataset, batch_sampler=sampler)) for _ in range(2)]
    batches = ClassBatches(labels, 3, 4, seed=5)
    for number, epoch in enumerate(epochs):
        batches.set_epoch(number)
        assert [rows.tolist() for rows, _ in epoch] == [rows.tolist() for rows in batches]
        assert len(epoch) == len(sampler)
        assert all(label.view(3, 4).unique(dim=1).shape == (3, 1) for _, label in epoch)
    sampler.set_epoch(1)
    assert list(sampler) == [rows.tolist() for rows, _ in epochs[1]]
    assert type(next(iter(sampler))[0]) is int  # lists of plain numbers index every dataset


def test_replicas_share_each_batch_class_by_class() -> None:
    labels = labels_of([5, 5, 5, 5])
    whole = list(ClassBalancedBatchSampler(labels, 4, 2, seed=1))
    parts = [list(ClassBalancedBatchSampler(labels, 4, 2, seed=1, num_replicas=2, rank=rank)) for rank in range(2)]
    assert [first + second for first, second in zip(*parts, strict=True)] == whole
    with pytest.raises(DataError, match="multiple of num_replicas"):
        ClassBalancedBatchSampler(labels, 3, 2, num_replicas=2)
    with pytest.raises(DataError, match="rank"):
        ClassBalancedBatchSampler(labels, 4, 2, num_replicas=2, rank=2)
