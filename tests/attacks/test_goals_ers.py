"""The goals of the empirical robustness score against loops written from its table."""

from __future__ import annotations

import math

import pytest
import torch
from attack_cases import seeded
from torch import Tensor
from torch.nn import functional as F

from holdfast import attacks
from holdfast.attacks import BoundGoal, References
from holdfast.errors import DataError

N, DIM = 40, 5


def unit(count: int, seed: int) -> Tensor:
    return F.normalize(torch.randn(count, DIM, generator=seeded(seed), dtype=torch.float64), dim=1)


LABELS = torch.arange(N) % 7
CLEAN = unit(N, 0)
ROWS = torch.tensor([3, 0, 17, 39, 8])
MOVED = F.normalize(CLEAN[ROWS] + 0.8 * unit(len(ROWS), 1), dim=1)
KNOWN = References(CLEAN, LABELS)


def d(a: Tensor, b: Tensor) -> float:
    return math.sqrt(sum((x - y) ** 2 for x, y in zip(a.tolist(), b.tolist(), strict=True)))


def bind(name: str, seed: int = 0, **arguments: object) -> BoundGoal:
    return attacks.build(name, **arguments).bind(KNOWN, ROWS, seeded(seed))


def ranked(z: Tensor, row: int) -> list[int]:
    """The gallery by distance, own copy masked."""
    return sorted((x for x in range(N) if x != row), key=lambda x: d(z, CLEAN[x]))


def hit(z: Tensor, row: int) -> float:
    return float(LABELS[ranked(z, row)[0]] == LABELS[row])


def shifted(a: Tensor, b: Tensor) -> float:
    """A distance as torch's `pairwise_distance` has it: 1e-6 is added to every difference."""
    return math.sqrt(sum((x - y + 1e-6) ** 2 for x, y in zip(a.tolist(), b.tolist(), strict=True)))


def same(values: Tensor, expected: list[float]) -> None:
    torch.testing.assert_close(values, torch.tensor(expected, dtype=torch.float64), rtol=1e-9, atol=1e-7)


@pytest.mark.parametrize(("name", "sign"), [("ca+", 1), ("ca-", -1)])
def test_candidate_attacks(name: str, sign: int) -> None:
    goal = bind(name)
    loss, rank = [], []
    for z, q in zip(MOVED, goal.target.tolist(), strict=True):  # type: ignore[attr-defined]
        gaps = [d(z, CLEAN[q]) - d(CLEAN[x], CLEAN[q]) for x in range(N)]
        loss.append(sum(max(0.0, sign * gap) for gap in gaps) / N)
        rank.append(100 * sum(gap > 0 for gap in gaps) / N)
    same(goal.loss(MOVED), loss)
    same(goal.measure(MOVED)["rank"], rank)
    assert 0 < goal.measure(MOVED)["rank"].mean() < 100


@pytest.mark.parametrize("name", ["ca+", "ca-"])
def test_a_candidate_that_did_not_move_is_level_with_its_own_copy(name: str) -> None:
    known = References(CLEAN.float(), LABELS)
    goal = attacks.build(name).bind(known, torch.arange(N), seeded(0))
    found = goal.measure(known.vectors)
    query = (goal.target != torch.arange(N)).float()  # type: ignore[attr-defined]  # it is before all but itself
    torch.testing.assert_close(found["rank"], 100 * (found["place"] - 1 + query) / N)


@pytest.mark.parametrize(("name", "sign"), [("qa+", 1), ("qa-", -1), ("gtt", -1)])
def test_query_attacks(name: str, sign: int) -> None:
    goal = bind(name)
    loss, rank = [], []
    for z, c in zip(MOVED, goal.target.tolist(), strict=True):  # type: ignore[attr-defined]
        gaps = [d(z, CLEAN[c]) - d(z, CLEAN[x]) for x in range(N)]
        loss.append(sum(max(0.0, sign * gap) for gap in gaps) / N)
        rank.append(100 * sum(gap > 0 for gap in gaps) / N)
    same(goal.loss(MOVED), loss)
    if name != "gtt":
        same(goal.measure(MOVED)["rank"], rank)


def test_greedy_top_one() -> None:
    goal = bind("gtt")
    nearest = [ranked(CLEAN[row], row)[0] for row in ROWS.tolist()]
    assert goal.target.tolist() == nearest  # type: ignore[attr-defined]
    top4 = [float(m in ranked(z, row)[:4]) for z, row, m in zip(MOVED, ROWS.tolist(), nearest, strict=True)]
    same(goal.measure(MOVED)["top4"], top4)
    assert 0 < sum(top4) < len(top4)
    assert goal.measure(CLEAN[ROWS])["top4"].tolist() == [1.0] * len(ROWS)


def test_targeted_mismatch() -> None:
    goal = bind("tma")
    target = goal.target  # type: ignore[attr-defined]
    assert all(any(torch.equal(t, x) for x in KNOWN.vectors) for t in target)
    cosine = [float((z * t).sum() / (z.norm() * t.norm())) for z, t in zip(MOVED, target, strict=True)]
    same(goal.loss(MOVED), [1 - c for c in cosine])
    same(goal.measure(MOVED)["cosine"], cosine)


@pytest.mark.parametrize("name", ["es", "shift"])
def test_embedding_shift(name: str) -> None:
    goal = bind(name)
    pairs = [(z, CLEAN[row]) for z, row in zip(MOVED, ROWS.tolist(), strict=True)]
    same(goal.loss(MOVED), [-shifted(*pair) for pair in pairs])
    same(goal.measure(MOVED)["shift"], [d(*pair) for pair in pairs])
    if name == "es":
        same(goal.measure(MOVED)["hit"], [hit(z, row) for z, row in zip(MOVED, ROWS.tolist(), strict=True)])


def test_first_step_of_a_shift_has_a_gradient() -> None:
    """The difference of 1e-6 in every coordinate grows: the embedding is sent along (1, ..., 1)."""
    known = References(CLEAN.float(), LABELS)
    goal = attacks.build("es").bind(known, ROWS)
    z = known.vectors[ROWS].requires_grad_()
    (gradient,) = torch.autograd.grad(goal.loss(z).sum(), z)
    torch.testing.assert_close(-gradient, torch.full_like(gradient, 1 / math.sqrt(DIM)))


@pytest.mark.parametrize("published", [False, True])
def test_learning_to_misrank(published: bool) -> None:
    goal = bind("ltm", published=published)
    loss = []
    for z, row in zip(MOVED, ROWS.tolist(), strict=True):
        other = [d(z, CLEAN[x]) for x in range(N) if LABELS[x] != LABELS[row]]
        own = [d(z, CLEAN[x]) for x in range(N) if LABELS[x] == LABELS[row] and (published or x != row)]
        loss.append(max(0.0, max(other) - min(own)))
    same(goal.loss(MOVED), loss)
    same(goal.measure(MOVED)["hit"], [hit(z, row) for z, row in zip(MOVED, ROWS.tolist(), strict=True)])


def test_the_own_copy_changes_the_published_misranking() -> None:
    assert (bind("ltm", published=True).loss(MOVED) > bind("ltm").loss(MOVED)).any()


def test_misranking_without_a_match_has_nothing_to_lose() -> None:
    lonely = References(CLEAN, torch.arange(N))
    assert attacks.build("ltm").bind(lonely, ROWS).loss(MOVED).tolist() == [0.0] * len(ROWS)


@pytest.mark.parametrize("published", [False, True])
def test_misranking_looks_past_the_own_camera(published: bool) -> None:
    alone = References(CLEAN, LABELS, groups=torch.zeros(N, dtype=torch.long))
    loss = attacks.build("ltm", published=published).bind(alone, ROWS).loss(MOVED)
    own = [d(z, CLEAN[row]) for z, row in zip(MOVED, ROWS.tolist(), strict=True)]
    far = [max(d(z, CLEAN[x]) for x in range(N) if LABELS[x] != LABELS[r]) for z, r in zip(MOVED, ROWS, strict=True)]
    same(loss, [max(0.0, f - o) if published else 0.0 for f, o in zip(far, own, strict=True)])


@pytest.mark.parametrize("published", [False, True])
def test_greedy_misranking(published: bool) -> None:
    goal = bind("gtm", published=published)
    expected = []
    for row in ROWS.tolist():
        order = ranked(CLEAN[row], row)
        if published:
            left = [x for x in range(N) if LABELS[x] != LABELS[order[0]]]
            u = left.index(next(x for x in order if x in left))
        else:
            u = next(x for x in order if LABELS[x] != LABELS[row])
        expected.append(u)
    assert goal.target.tolist() == expected  # type: ignore[attr-defined]
    same(goal.loss(MOVED), [d(z, CLEAN[u]) for z, u in zip(MOVED, expected, strict=True)])
    same(goal.measure(MOVED)["hit"], [hit(z, row) for z, row in zip(MOVED, ROWS.tolist(), strict=True)])
    assert (expected == bind("gtm").target.tolist()) is not published  # type: ignore[attr-defined]


@pytest.mark.parametrize(("size", "candidates"), [(30, 1), (199, 1), (299, 2), (400, 4)])
@pytest.mark.parametrize("name", ["ca-", "qa-"])
def test_nearest_one_percent(size: int, candidates: int, name: str) -> None:
    """Floor(N / 100) neighbours besides the own copy, one at least."""
    known = References(unit(size, 2))
    rows = torch.full((200,), 11)
    drawn = attacks.build(name).bind(known, rows, seeded()).target  # type: ignore[attr-defined]
    order = (known.vectors - known.vectors[11]).norm(dim=1).argsort().tolist()
    assert set(drawn.tolist()) == set(order[1 : candidates + 1])


def test_nearest_one_percent_of_an_image_outside_the_gallery() -> None:
    known = References(unit(400, 2), queries=unit(3, 3))
    drawn = attacks.build("qa-").bind(known, torch.full((200,), 2), seeded()).target  # type: ignore[attr-defined]
    assert known.queries is not None
    order = (known.vectors - known.queries[2]).norm(dim=1).argsort().tolist()
    assert set(drawn.tolist()) == set(order[:4])


@pytest.mark.parametrize("name", ["ca+", "qa+"])
def test_targets_are_uniform_over_the_gallery(name: str) -> None:
    drawn = attacks.build(name).bind(KNOWN, torch.zeros(4000, dtype=torch.long), seeded()).target  # type: ignore[attr-defined]
    counts = torch.bincount(drawn, minlength=N)
    assert counts.min() > 60
    assert counts.max() < 145


@pytest.mark.parametrize("name", ["es", "ltm", "gtm", "single-target", "unadversarial", "alignment", "triplet"])
def test_labels_are_asked_for_before_any_work(name: str) -> None:
    for known in (References(CLEAN), References(CLEAN, LABELS, queries=CLEAN)):
        with pytest.raises(DataError, match="labels"):
            attacks.build(name).bind(known, ROWS)


def test_ranking_is_the_same_in_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    names = ("ca+", "ca-", "qa+", "qa-", "gtt", "ltm", "uniformity")
    whole = [bind(name).loss(MOVED) for name in names]
    monkeypatch.setattr("holdfast.metrics.base.BLOCK", 64)
    for name, expected in zip(names, whole, strict=True):
        z = MOVED.clone().requires_grad_()
        loss = bind(name).loss(z)
        torch.testing.assert_close(loss.detach(), expected)
        torch.autograd.grad(loss.sum(), z)
