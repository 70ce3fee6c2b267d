"""Each miner's own rule, against loops, frequencies and pytorch-metric-learning."""

from __future__ import annotations

from collections import Counter

import mining_oracle as oracle
import pytest
import torch
from torch import Tensor

from holdfast import mining
from holdfast.mining import Triplets
from holdfast.mining.draw import uniform, weighted

DRAWS = 4000


def draws_of_all(miner: mining.Miner, z: Tensor, labels: Tensor, times: int) -> list[list[tuple[int, int]]]:
    """(positive, negative) of every anchor over many seeded calls."""
    generator = torch.Generator().manual_seed(5)
    found: list[list[tuple[int, int]]] = [[] for _ in labels]
    for _ in range(times):
        triplets = miner(z, labels, generator)
        assert isinstance(triplets, Triplets)
        for anchor, positive, negative in zip(*(index.tolist() for index in triplets), strict=True):
            found[anchor].append((positive, negative))
    assert {len(drawn) for drawn in found} == {times}
    return found


def draws(miner: mining.Miner, z: Tensor, labels: Tensor, anchor: int, times: int = 300) -> list[tuple[int, int]]:
    """(positive, negative) of one anchor over many seeded calls."""
    return draws_of_all(miner, z, labels, times)[anchor]


def chi_square(counts: Counter[int], expected: dict[int, float]) -> float:
    """Statistic divided by its degrees of freedom; about one when the counts follow the expectation."""
    assert set(counts) <= set(expected)
    total = sum(counts.values())
    terms = [(counts[k] - total * p) ** 2 / (total * p) for k, p in expected.items()]
    return sum(terms) / (len(terms) - 1)


def test_uniform_draws_each_allowed_column_equally() -> None:
    allowed = torch.tensor([0, 1, 1, 0, 1, 1, 1, 0], dtype=torch.bool).expand(DRAWS, 8)
    drawn = uniform(allowed, torch.Generator().manual_seed(0))
    assert chi_square(Counter(drawn.tolist()), dict.fromkeys([1, 2, 4, 5, 6], 0.2)) < 2.5


def test_weighted_draws_by_weight_without_leaving_the_logarithm() -> None:
    weights = torch.tensor([1.0, 2.0, 3.0, 4.0])
    allowed = torch.tensor([True, True, False, True]).expand(DRAWS, 4)
    drawn = weighted((weights.log() + 500).expand(DRAWS, 4), allowed, torch.Generator().manual_seed(0))
    assert chi_square(Counter(drawn.tolist()), {0: 1 / 7, 1: 2 / 7, 3: 4 / 7}) < 3


def test_random_is_uniform_in_both() -> None:
    z, labels = oracle.batch(classes=3)
    found = draws(mining.build("random"), z, labels, anchor=5, times=1000)
    near, far = oracle.positives(labels, 5), oracle.negatives(labels, 5)
    assert chi_square(Counter(p for p, _ in found), {j: 1 / len(near) for j in near}) < 3.5
    assert chi_square(Counter(n for _, n in found), {j: 1 / len(far) for j in far}) < 2.5


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("margin", [0.05, 0.2, 1.0])
def test_semihard_negatives_lie_in_the_band(seed: int, margin: float) -> None:
    z, labels = oracle.batch(seed)
    triplets = mining.build("semihard", margin=margin)(z, labels, torch.Generator().manual_seed(seed))
    for a, p, n in zip(*(index.tolist() for index in triplets), strict=True):
        d_ap = oracle.distance(z, a, p)
        band = [j for j in oracle.negatives(labels, a) if d_ap < oracle.distance(z, a, j) < d_ap + margin]
        assert n in (band or oracle.negatives(labels, a))


def test_semihard_draws_the_whole_band() -> None:
    z, labels = oracle.batch(1)
    miner = mining.build("semihard", margin=0.3)
    found = draws(miner, z, labels, anchor=0)
    for p in {p for p, _ in found}:
        d_ap = oracle.distance(z, 0, p)
        band = [j for j in oracle.negatives(labels, 0) if d_ap < oracle.distance(z, 0, j) < d_ap + 0.3]
        assert {n for q, n in found if q == p} == set(band or oracle.negatives(labels, 0))


def test_semihard_positives_are_those_with_a_band() -> None:
    z, labels = oracle.batch(2, spread=1.0)
    miner = mining.build("semihard", margin=0.1, positives="semihard")
    restricted = 0
    for anchor, found in enumerate(draws_of_all(miner, z, labels, times=60)):
        near, far = oracle.positives(labels, anchor), oracle.negatives(labels, anchor)
        banded = [
            p for p in near if any(0 < oracle.distance(z, anchor, n) - oracle.distance(z, anchor, p) < 0.1 for n in far)
        ]
        restricted += 0 < len(banded) < len(near)
        assert {p for p, _ in found} == set(banded or near)
    assert restricted  # otherwise the option would have nothing to show here


@pytest.mark.parametrize("variant", ["default", "published"])
def test_softhard_pools(variant: str) -> None:
    z, labels = oracle.batch(3, spread=0.7)
    miner = mining.build("softhard", variant=variant)
    fell_back = 0
    for anchor, found in enumerate(draws_of_all(miner, z, labels, times=150)):
        near, far = oracle.positives(labels, anchor), oracle.negatives(labels, anchor)
        closest = min(oracle.distance(z, anchor, n) for n in far)
        farthest = max(oracle.distance(z, anchor, p) for p in near)
        hard_near = [p for p in near if oracle.distance(z, anchor, p) > closest]
        hard_far = [n for n in far if oracle.distance(z, anchor, n) < farthest]
        fell_back += not hard_near
        fallback = [*near, anchor] if variant == "published" else near
        assert {p for p, _ in found} == set(hard_near or fallback)
        assert {n for _, n in found} <= set(hard_far or far)
    assert fell_back


@pytest.mark.parametrize(("variant", "cutoff"), [("default", 0.5), ("published", 0.0)])
def test_distance_weights(variant: str, cutoff: float) -> None:
    z, labels = oracle.batch(4, classes=3, dim=8, spread=0.5)
    z[4] = torch.nn.functional.normalize(z[0] + 0.05 * z[4], dim=0)  # one negative closer than the clamp
    assert oracle.distance(z, 0, 4) < 0.5
    weights = {}
    for n in oracle.negatives(labels, 0):
        d = max(cutoff, oracle.distance(z, 0, n))
        weights[n] = 1 / (d ** (8 - 2) * (1 - d * d / 4) ** ((8 - 3) / 2))
    total = sum(weights.values())
    found = Counter(n for _, n in draws(mining.build("distance", variant=variant), z, labels, 0, times=1500))
    assert chi_square(found, {n: w / total for n, w in weights.items()}) < 3


def test_distance_survives_opposite_and_coinciding_vectors() -> None:
    z = torch.tensor([[1.0, 0, 0], [1, 0, 0], [-1, 0, 0], [1, 0, 0]])
    labels = torch.tensor([0, 0, 1, 1])
    for variant in ("default", "published"):
        triplets = mining.build("distance", variant=variant)(z, labels, torch.Generator().manual_seed(0))
        assert len(triplets.anchor) == 4


@pytest.mark.parametrize("seed", range(3))
def test_hardest_negative_is_the_nearest(seed: int) -> None:
    z, labels = oracle.batch(seed)
    triplets = mining.build("hardest")(z, labels, torch.Generator().manual_seed(0))
    for a, n in zip(triplets.anchor.tolist(), triplets.negative.tolist(), strict=True):
        assert n == min(oracle.negatives(labels, a), key=lambda j: oracle.distance(z, a, j))


@pytest.mark.parametrize("seed", range(3))
def test_ephn_equals_its_peer(seed: int) -> None:
    peers = pytest.importorskip("pytorch_metric_learning.miners")
    z, labels = oracle.batch(seed)
    expected = peers.BatchEasyHardMiner("easy", "hard")(z, labels)
    triplets = mining.build("ephn")(z, labels)
    for ours, theirs in zip(triplets, (expected[0], expected[1], expected[3]), strict=True):
        assert torch.equal(ours, theirs)
    same = mining.build("easy-positive", negative="hardest")(z, labels)
    assert all(torch.equal(one, two) for one, two in zip(triplets, same, strict=True))


@pytest.mark.parametrize("epsilon", [0.1, 0.4])
def test_multi_similarity_equals_its_peer(epsilon: float) -> None:
    peers = pytest.importorskip("pytorch_metric_learning.miners")
    z, labels = oracle.batch(7, spread=0.5)
    a1, p, a2, n = peers.MultiSimilarityMiner(epsilon)(z, labels)
    pairs = mining.build("multi-similarity", epsilon=epsilon)(z, labels)
    assert {(int(i), int(j)) for i, j, s in zip(*pairs, strict=True) if s} == set(
        zip(a1.tolist(), p.tolist(), strict=True)
    )
    assert {(int(i), int(j)) for i, j, s in zip(*pairs, strict=True) if not s} == set(
        zip(a2.tolist(), n.tolist(), strict=True)
    )
    assert 0 < len(pairs.anchor) < len(z) * (len(z) - 1)


@pytest.mark.parametrize("negative", ["random", "distance", "semihard", "hardest"])
def test_easy_positive_is_the_nearest_and_its_negative_relative_to_it(negative: str) -> None:
    z, labels = oracle.batch(8)
    triplets = mining.build("easy-positive", negative=negative)(z, labels, torch.Generator().manual_seed(1))
    for a, p, n in zip(*(index.tolist() for index in triplets), strict=True):
        assert p == min(oracle.positives(labels, a), key=lambda j: oracle.distance(z, a, j))
        far = oracle.negatives(labels, a)
        if negative == "semihard":
            d_ap = oracle.distance(z, a, p)
            far = [j for j in far if d_ap < oracle.distance(z, a, j) < d_ap + 0.2] or far
        assert n in far


@pytest.mark.parametrize("epsilon", [0.1, 0.3])
def test_easy_positive_with_the_negatives_of_multi_similarity(epsilon: float) -> None:
    z, labels = oracle.batch(9)
    negative = {"name": "multi-similarity", "epsilon": epsilon}
    pairs = mining.build("easy-positive", negative=negative)(z, labels)
    expected = set()
    solved = 0
    for a in range(len(z)):
        easy = max(oracle.positives(labels, a), key=lambda j: float(z[a] @ z[j]))
        hard = [n for n in oracle.negatives(labels, a) if float(z[a] @ z[n]) + epsilon > float(z[a] @ z[easy])]
        solved += not hard
        expected |= {(a, n, False) for n in hard} | ({(a, easy, True)} if hard else set())
    assert {(int(a), int(b), bool(same)) for a, b, same in zip(*pairs, strict=True)} == expected
    assert 0 < solved < len(z), "some anchors should be solved and some not"


def test_easy_positive_with_multi_similarity_is_that_miner_on_the_easy_pairs_alone() -> None:
    """In classes of two the easy positive is the only one, and nothing is left to replace."""
    z, labels = oracle.batch(9, classes=10, per_class=2)
    easy = mining.build("easy-positive", negative="multi-similarity")(z, labels)
    full = mining.build("multi-similarity")(z, labels)
    assert all(torch.equal(one, other) for one, other in zip(easy, full, strict=True))


def test_hardness_grows_from_random_to_hardest() -> None:
    z, labels = oracle.batch(0, classes=40, per_class=2, dim=32, spread=1.2)
    mean = {}
    for name in ("random", "semihard", "hardest"):
        generator = torch.Generator().manual_seed(0)
        miner = mining.build(name, variant="published")
        hardness = []
        for _ in range(20):
            a, p, n = miner(z, labels, generator)
            hardness.append(float(((z[a] - z[p]).norm(dim=1) - (z[a] - z[n]).norm(dim=1)).mean()))
        mean[name] = sum(hardness) / len(hardness)
    assert mean["random"] < mean["semihard"] < mean["hardest"]
