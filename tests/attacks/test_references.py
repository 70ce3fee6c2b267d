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
    with pytest.raises(DataError, match="labels must have shape"):
        References(VECTORS, LABELS[:-1])
    with pytest.raises(DataError, match="labels must have shape"):
        References(VECTORS, torch.ones(3, 30, dtype=torch.bool))
    with pytest.raises(DataError, match="both or neither"):
        References(VECTORS, LABELS, query_labels=LABELS)
    with pytest.raises(DataError, match="nothing but"):
        References(VECTORS[:1]).nearest(VECTORS[:1], torch.tensor([0]), 1)
    relevance = torch.ones(3, 30, dtype=torch.bool)
    with pytest.raises(DataError, match="integer labels"):
        References(VECTORS, relevance, queries=VECTORS[:3]).alike(torch.tensor([0]))
