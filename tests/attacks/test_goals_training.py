"""The goals of the training papers against loops written from their formulas."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from attack_cases import seeded
from torch import Tensor
from torch.nn import functional as F

from holdfast import attacks
from holdfast.attacks import BoundGoal, References
from holdfast.errors import DataError, RecipeError
from holdfast.mining import draw

N, DIM = 18, 4


def unit(count: int, seed: int) -> Tensor:
    return F.normalize(torch.randn(count, DIM, generator=seeded(seed), dtype=torch.float64), dim=1)


LABELS = torch.arange(N) // 3
CLEAN = unit(N, 0)
ROWS = torch.tensor([0, 1, 4, 5, 16, 9])
MOVED = unit(len(ROWS), 1)
KNOWN = References(CLEAN, LABELS)


def bind(name: str, seed: int = 0, known: References = KNOWN, **arguments: Any) -> BoundGoal:
    return attacks.build(name, **arguments).bind(known, ROWS, seeded(seed))


def same(values: Tensor, expected: list[float]) -> None:
    torch.testing.assert_close(values, torch.tensor(expected, dtype=torch.float64), rtol=1e-9, atol=1e-9)


def squared(a: Tensor, b: Tensor) -> float:
    return sum((x - y) ** 2 for x, y in zip(a.tolist(), b.tolist(), strict=True))


def adml(name: str, joint: bool) -> list[float]:
    """What each image maximises."""
    values = []
    for i, row in enumerate(ROWS.tolist()):
        others = (
            [(MOVED[j], int(r)) for j, r in enumerate(ROWS.tolist()) if j != i]
            if joint
            else [(CLEAN[x], x) for x in range(N) if x != row]
        )
        near = [squared(MOVED[i], z) for z, x in others if LABELS[x] == LABELS[row]]
        far = [math.exp(-squared(MOVED[i], z)) for z, x in others if LABELS[x] != LABELS[row]]
        chosen = near if name == "alignment" else far
        values.append(sum(chosen) / len(chosen) if chosen else 0.0)
    return values


@pytest.mark.parametrize("name", ["alignment", "uniformity"])
def test_adml_objectives(name: str) -> None:
    values = adml(name, joint=False)
    same(bind(name).loss(MOVED), [-v for v in values])
    same(bind(name).measure(MOVED)[name], values)
    values = adml(name, joint=True)
    goal = bind(name, reference="joint")
    assert goal.group is None
    same(goal.loss(MOVED), [-sum(values)])
    same(goal.measure(MOVED)[name], [sum(values) / len(values)])


@pytest.mark.parametrize("reference", ["clean", "joint"])
def test_alignment_and_uniformity_together(reference: str) -> None:
    both = bind("alignment-uniformity", reference=reference)
    parts = [bind(name, reference=reference).loss(MOVED) for name in ("alignment", "uniformity")]
    torch.testing.assert_close(both.loss(MOVED), parts[0] + parts[1])
    assert set(both.measure(MOVED)) == {"alignment/alignment", "uniformity/uniformity"}


def test_triplet_gap_against_clean_references() -> None:
    goal = bind("triplet")
    positive, negative = goal.positive.tolist(), goal.negative.tolist()  # type: ignore[attr-defined]
    gaps = []
    for z, row, p, n in zip(MOVED, ROWS.tolist(), positive, negative, strict=True):
        assert LABELS[p] == LABELS[row]
        assert p != row
        assert LABELS[n] != LABELS[row]
        gaps.append(squared(z, CLEAN[p]) - squared(z, CLEAN[n]))
    same(goal.loss(MOVED), [-gap for gap in gaps])
    same(goal.measure(MOVED)["gap"], gaps)


def test_a_hinged_triplet_is_still_once_it_is_satisfied() -> None:
    free, hinged = bind("triplet"), bind("triplet", margin=0.2)
    z = MOVED.clone().requires_grad_()
    (gradient,) = torch.autograd.grad(hinged.loss(z).sum(), z)
    gap = -free.loss(z.detach())
    torch.testing.assert_close(-hinged.loss(z.detach()), torch.relu(gap + 0.2))
    satisfied = gap < -0.2
    assert satisfied.any()
    assert not satisfied.all()
    assert torch.equal(gradient.abs().sum(1) == 0, satisfied)


def test_triplet_gap_of_a_batch() -> None:
    generator, total = seeded(0), 0.0
    drawn = [draw.uniform(pairs(ROWS, ROWS), generator).tolist() for pairs in (KNOWN.positives, KNOWN.negatives)]
    for i, (row, p, n) in enumerate(zip(ROWS.tolist(), *drawn, strict=True)):
        if row in (16, 9):  # alone in its class here
            continue
        assert LABELS[ROWS[p]] == LABELS[row]
        assert p != i
        assert LABELS[ROWS[n]] != LABELS[row]
        total += squared(MOVED[i], MOVED[p]) - squared(MOVED[i], MOVED[n])
    same(bind("triplet", reference="joint").loss(MOVED), [-total])


@pytest.mark.parametrize(
    ("name", "arguments", "count", "own"),
    [
        ("single-target", {}, 1, False),
        ("multi-target", {"targets": 1}, 1, False),
        ("multi-target", {"targets": 5}, 5, False),
        ("unadversarial", {}, 1, True),
        ("unadversarial", {"targets": 2}, 2, True),
    ],
)
def test_mean_distance_to_drawn_targets(name: str, arguments: dict[str, Any], count: int, own: bool) -> None:
    goal = bind(name, **arguments)
    targets = goal.targets  # type: ignore[attr-defined]
    assert targets.shape == (len(ROWS), count)
    lengths = []
    for z, row, chosen in zip(MOVED, ROWS.tolist(), targets.tolist(), strict=True):
        classes = [int(LABELS[t]) for t in chosen]
        assert all((c == int(LABELS[row])) is own for c in classes)
        assert row not in chosen
        assert len(set(chosen)) == count
        assert own or len(set(classes)) == count
        lengths.append([math.sqrt(squared(z, CLEAN[t])) for t in chosen])
    expected = [sum(each) / count for each in lengths]
    same(goal.loss(MOVED), expected)
    same(goal.measure(MOVED)["distance"], expected)
    same(goal.measure(MOVED)["farthest"], [max(each) for each in lengths])


def test_multi_target_gives_classes_and_their_images_equal_chances() -> None:
    labels = torch.tensor([0] + [1] * 9 + [2] * 3 + [3])
    known = References(unit(14, 3), labels)
    rows = torch.zeros(6000, dtype=torch.long)
    targets = attacks.build("multi-target", targets=1).bind(known, rows, seeded()).targets  # type: ignore[attr-defined]
    counts = torch.bincount(targets.flatten(), minlength=14) / 6000
    expected = torch.tensor([0] + [1 / 27] * 9 + [1 / 9] * 3 + [1 / 3])
    torch.testing.assert_close(counts, expected, rtol=0, atol=0.025)


def test_unadversarial_uses_what_there_is() -> None:
    goal = bind("unadversarial", targets=4)
    assert goal.real.sum(1).tolist() == [2] * len(ROWS)  # type: ignore[attr-defined]
    lonely = bind("unadversarial", known=References(CLEAN, torch.arange(N)))
    assert lonely.loss(MOVED).tolist() == [0.0] * len(ROWS)


def test_too_few_classes() -> None:
    with pytest.raises(DataError, match="fewer targets"):
        bind("multi-target", targets=6)
    one_class = References(CLEAN, torch.zeros(N, dtype=torch.long))
    for name in ("single-target", "gtm"):
        with pytest.raises(DataError, match=r"two classes|2 classes"):
            bind(name, known=one_class)
    with pytest.raises(RecipeError, match="1 or more"):
        attacks.build("multi-target", targets=0)


def test_collapse_and_hardness() -> None:
    pairs = MOVED.view(3, 2, DIM)
    same(bind("collapse").loss(MOVED), [math.sqrt(squared(p + 1e-6, n)) for p, n in pairs])
    hardness = [math.sqrt(squared(a + 1e-6, p)) - math.sqrt(squared(a + 1e-6, n)) for a, p, n in MOVED.view(2, 3, DIM)]
    same(bind("hardness").measure(MOVED)["hardness"], hardness)
    same(bind("hardness").loss(MOVED), [(2 - h) ** 2 for h in hardness])
    wanted = torch.tensor([hardness[0] + 0.3, hardness[1] - 0.3], dtype=torch.float64)
    same(bind("hardness", destination=wanted).loss(MOVED), [0.09, 0.0])


def test_hardness_wants_one_destination_per_triplet() -> None:
    with pytest.raises(DataError, match="2 triplets"):
        bind("hardness", destination=torch.zeros(3))


def test_groups_must_be_whole() -> None:
    with pytest.raises(DataError, match="groups of 3"):
        bind("hardness").loss(MOVED[:4])


def test_sums_and_worst_cases() -> None:
    members = ["single-target", "es"]
    draw = seeded(4)
    parts = [attacks.build(name).bind(KNOWN, ROWS, draw).loss(MOVED) for name in members]
    total = bind("sum", seed=4, goals=members, weights=[2.0, 0.5])
    torch.testing.assert_close(total.loss(MOVED), 2 * parts[0] + 0.5 * parts[1])
    worst = bind("worst-of", seed=4, goals=members)
    torch.testing.assert_close(worst.loss(MOVED), torch.minimum(*parts))
    assert set(worst.measure(MOVED)) == {"1/distance", "1/farthest", "2/shift", "2/hit"}
    assert total.stationary
    assert not bind("sum", goals=["tma"]).stationary
    assert bind("sum", goals=["ltm", "qa-"]).floor == 0
    assert bind("worst-of", goals=["ltm", "tma"]).floor == -math.inf


def test_composition_is_checked() -> None:
    with pytest.raises(RecipeError, match="same size"):
        bind("sum", goals=["tma", "hardness"])
    with pytest.raises(RecipeError, match="a weight for each"):
        attacks.build("sum", goals=["tma"], weights=[1.0, 2.0])
    with pytest.raises(RecipeError, match="above 0"):
        attacks.build("worst-of", goals=["tma"], weights=[0.0])
    with pytest.raises(RecipeError, match="did you mean 'collapse'"):
        attacks.build("sum", goals=["colapse"])
