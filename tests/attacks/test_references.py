"""References: own copies, neighbours, draws, refusals."""

from __future__ import annotations

import pytest
import torch
from attack_cases import seeded
from torch.nn import functional as F

from holdfast import metrics
from holdfast.attacks import References
from holdfast.errors import DataError

VECTORS = torch.randn(30, 4, generator=seeded())
LABELS = torch.arange(30) % 5


def test_vectors_are_scaled_like_the_model() -> None:
    torch.testing.assert_close(References(VECTORS).vectors, F.normalize(VECTORS, dim=1))
    assert torch.equal(References(VECTORS, normalize=False).vectors, VECTORS)
    assert References(VECTORS.bfloat16()).vectors.dtype == torch.float32


def test_own_copy_is_never_a_neighbour() -> None:
    known = References(VECTORS, LABELS)
    rows = torch.tensor([4, 9, 9, 0])
    expected = (known.vectors[rows][:, None] - known.vectors).norm(dim=2).argsort(1)[:, 1:6]
    assert torch.equal(known.nearest(known.vectors[rows], rows, 5), expected)
    assert known.nearest(known.vectors[rows], rows, 99).shape == (4, 29)


def test_own_copy_is_skipped_among_equals() -> None:
    known = References(torch.ones(5, 3))
    rows = torch.tensor([0, 2, 4])
    assert known.nearest(torch.ones(3, 3), rows, 2).tolist() == [[1, 2], [0, 1], [0, 1]]


def test_hits_average_to_recall() -> None:
    known = References(VECTORS, LABELS)
    hits = known.hits(known.vectors, torch.arange(30))
    assert 100 * hits.mean().item() == pytest.approx(metrics.retrieval(known.vectors, LABELS, ks=(1,))["R@1"])


def test_queries_have_no_copy() -> None:
    known = References(VECTORS, LABELS, queries=VECTORS[:3], query_labels=LABELS[:3])
    rows = torch.arange(3)
    assert known.nearest(known.clean(rows), rows, 1).squeeze(1).tolist() == [0, 1, 2]
    assert known.positives(rows).sum(1).tolist() == [6, 6, 6]
    assert References(VECTORS, LABELS).positives(rows).sum(1).tolist() == [5, 5, 5]


def test_items_of_the_same_label_and_group_do_not_count() -> None:
    groups = torch.arange(30) // 10
    known = References(VECTORS, LABELS, groups=groups)
    rows = torch.arange(30)
    assert known.positives(rows).sum(1).tolist() == [4] * 30
    assert known.negatives(rows).sum(1).tolist() == [24] * 30
    for row in range(30):
        order = (known.vectors - known.vectors[row]).norm(dim=1).argsort().tolist()
        kept = [x for x in order if LABELS[x] != LABELS[row] or groups[x] != groups[row]]
        assert known.nearest(known.vectors[[row]], rows[[row]], 4).tolist() == [kept[:4]]
    expected = metrics.retrieval(known.vectors, LABELS, groups=groups, ks=(1,))["R@1"]
    assert 100 * known.hits(known.vectors, rows).mean().item() == pytest.approx(expected)


def test_groups_of_queries() -> None:
    cameras = torch.arange(30) // 15
    known = References(
        VECTORS,
        LABELS,
        queries=VECTORS[:3],
        query_labels=LABELS[:3],
        groups=cameras,
        query_groups=torch.tensor([0, 1, 2]),
    )
    rows = torch.arange(3)
    assert known.positives(rows).sum(1).tolist() == [3, 3, 6]
    found = known.nearest(known.clean(rows), rows, 1).squeeze(1).tolist()
    assert found[0] != 0
    assert found[1:] == [1, 2]


def test_an_image_with_fewer_neighbours_repeats_its_last() -> None:
    known = References(VECTORS[:4], torch.tensor([0, 0, 0, 1]), groups=torch.tensor([0, 0, 0, 1]))
    found = known.nearest(known.vectors[[0, 3]], torch.tensor([0, 3]), 3)
    assert found[0].tolist() == [3, 3, 3]
    assert sorted(found[1].tolist()) == [0, 1, 2]


def test_a_hit_is_undefined_without_a_positive() -> None:
    labels = torch.tensor([0, 0, 1, 2])
    rows = torch.arange(4)
    known = References(VECTORS[:4], labels)
    assert known.hits(known.vectors, rows).isnan().tolist() == [False, False, True, True]
    seen = References(VECTORS[:4], labels, groups=torch.zeros(4, dtype=torch.long))
    assert seen.hits(seen.vectors, rows).isnan().all()


def test_draws_respect_labels_and_reach_every_item() -> None:
    known = References(VECTORS, LABELS)
    rows = torch.full((800,), 7)
    near = known.draw(rows, same=True, generator=seeded())
    far = known.draw(rows, same=False, generator=seeded())
    assert set(near.tolist()) == {2, 12, 17, 22, 27}
    assert set(far.tolist()) == {x for x in range(30) if x % 5 != 2}
    lonely = References(VECTORS, torch.arange(30))
    assert lonely.draw(rows[:3], same=True, generator=seeded()).tolist() == [-1, -1, -1]


@pytest.mark.parametrize(
    ("rows", "word"),
    [
        (torch.tensor([0, 30]), "between 0 and 29"),
        (torch.tensor([-1]), "between 0 and 29"),
        (torch.tensor([0.5]), "integers"),
        (torch.tensor([[1]]), "integers"),
    ],
)
def test_wrong_rows(rows: torch.Tensor, word: str) -> None:
    with pytest.raises(DataError, match=word):
        References(VECTORS).rows(rows)


def test_what_does_not_belong_together_is_refused() -> None:
    with pytest.raises(DataError, match="shape"):
        References(VECTORS[0])
    with pytest.raises(DataError, match="labels must be integers"):
        References(VECTORS, LABELS[:-1])
    with pytest.raises(DataError, match="labels must be integers"):
        References(VECTORS, torch.ones(3, 30, dtype=torch.bool))
    with pytest.raises(DataError, match="both or neither"):
        References(VECTORS, LABELS, query_labels=LABELS)
    with pytest.raises(DataError, match="same model"):
        References(VECTORS, LABELS).searched_by(VECTORS[:, 1:], LABELS)
    groups = torch.zeros(30, dtype=torch.long)
    with pytest.raises(DataError, match="query_groups belong together"):
        References(VECTORS, LABELS, queries=VECTORS, query_labels=LABELS, groups=groups)
    with pytest.raises(DataError, match="query_groups belong together"):
        References(VECTORS, LABELS, groups=groups, query_groups=groups)
    with pytest.raises(DataError, match="labels beside"):
        References(VECTORS, groups=groups)
    with pytest.raises(DataError, match="groups must be integers"):
        References(VECTORS, LABELS, groups=groups[:3])
    with pytest.raises(DataError, match="whole gallery"):
        References(VECTORS, groups, groups=groups).hits(VECTORS, torch.arange(30))
    with pytest.raises(DataError, match="nothing but"):
        References(VECTORS[:1]).nearest(VECTORS[:1], torch.tensor([0]), 1)
    relevance = torch.ones(3, 30, dtype=torch.bool)
    with pytest.raises(DataError, match="integer labels"):
        References(VECTORS, relevance, queries=VECTORS[:3]).alike(torch.tensor([0]))
