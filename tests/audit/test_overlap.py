"""Success rate and overlap of classes against loops from MDProp's Equations 4, 6 and 7, and the budgets of `stax`."""

from __future__ import annotations

import math
import statistics
from types import SimpleNamespace
from typing import Any, cast

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from holdfast.attacks import Budget, References
from holdfast.audit import registry
from holdfast.audit.stax import Centres, Stax, own_images_beyond
from holdfast.audit.subject import Subject
from holdfast.config import builder
from holdfast.errors import RecipeError

LABELS = torch.tensor([5, 5, 5, 2, 2, 2, 2, 9, 9, 7])
"""Of the gallery; the last is alone in its class."""


def unit(count: int, seed: int, dim: int = 3) -> Tensor:
    vectors = torch.randn(count, dim, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    return F.normalize(vectors, dim=1)


def length(a: Tensor, b: Tensor) -> float:
    return math.dist(a.tolist(), b.tolist())


def cases() -> list[tuple[References, Tensor, Tensor]]:
    """A gallery that is attacked itself, and queries beside it; with their rows and their labels."""
    rows = torch.tensor([9, 0, 3, 4, 8, 1])
    queries = torch.tensor([2, 9, 5, 7, 7, 2])
    every = References(unit(10, 0), LABELS)
    apart = References(unit(10, 0), LABELS, queries=unit(6, 1), query_labels=queries)
    return [(every, rows, LABELS[rows]), (apart, torch.arange(6), queries)]


def own_images(references: References, row: int, label: int) -> list[Tensor]:
    """Gallery images of a class, other than the attacked image."""
    itself = row if references.queries is None else -1
    return [references.vectors[j] for j in range(10) if int(LABELS[j]) == label and j != itself]


@pytest.mark.parametrize("case", [0, 1], ids=["one set", "queries apart"])
def test_success_rate_is_equation_4(case: int) -> None:
    references, rows, labels = cases()[case]
    farthest = torch.tensor([0.9, 1.3, 0.4, 1.1, 1.6, 0.8], dtype=torch.float64)
    found = own_images_beyond(references, rows, references.clean(rows), farthest).tolist()
    clean = references.clean(rows)
    for i, (row, label) in enumerate(zip(rows.tolist(), labels.tolist(), strict=True)):
        own = own_images(references, row, label)
        holds = [float(farthest[i]) <= length(clean[i], r) for r in own]
        assert math.isnan(found[i]) if not own else found[i] == pytest.approx(sum(holds) / len(own)), i
    assert len(set(found)) > 2, "the case tells images apart"


@pytest.mark.parametrize("case", [0, 1], ids=["one set", "queries apart"])
def test_overlap_is_equations_6_and_7(case: int) -> None:
    references, rows, labels = cases()[case]
    centres = Centres.of(references)
    means = {c: F.normalize(references.vectors[c == LABELS].mean(0), dim=0) for c in LABELS.unique().tolist()}
    own = [length(v, means[int(c)]) for v, c in zip(references.vectors, LABELS, strict=True)]
    assert centres.within == pytest.approx(statistics.median_low(own))
    everyone = LABELS if references.queries is None else labels
    subject = cast(Subject, SimpleNamespace(rows=rows, labels=everyone))
    vectors = unit(6, 3)
    near, nearer = (found.tolist() for found in centres.overlap(subject, vectors))
    for i, (row, label) in enumerate(zip(rows.tolist(), labels.tolist(), strict=True)):
        others = [length(vectors[i], mean) for c, mean in means.items() if c != label]
        assert near[i] == any(away <= centres.within for away in others), i
        mine = own_images(references, row, label)
        holds = [any(a <= centres.within and a <= length(vectors[i], g) for a in others) for g in mine]
        assert math.isnan(nearer[i]) if not mine else nearer[i] == pytest.approx(sum(holds) / len(mine)), i
    assert {0.0, 1.0} <= set(near)
    assert len(set(nearer)) > 2, "the case tells images apart"


def unhurried() -> SimpleNamespace:
    """What the protocol asks of a subject before it is attacked."""
    references = References(unit(12, 0), torch.arange(12))
    return SimpleNamespace(references=references, std=torch.tensor(0.5), sets={}, paced=lambda budget: budget)


@pytest.mark.parametrize(("eps", "radii"), [(None, (0.01, 0.1)), (0.03, (0.03, 0.3)), (0.0002, (0.0002, 0.002))])
def test_both_radii_start_within_the_same_distance(eps: float | None, radii: tuple[float, float]) -> None:
    budgets: dict[str, Budget] = {}

    def noted(name: str, goal: object, budget: Budget, *_: object) -> Any:
        budgets[name] = budget

    subject = unhurried()
    subject.attack_on = noted
    Stax(eps=eps).parts(cast(Subject, subject))
    for name, radius in zip(("", "-large"), radii, strict=True):
        for kind in ("stax", "mtax"):
            budget = budgets[kind + name]
            assert (budget.eps, budget.step_size, budget.steps) == pytest.approx((radius / 2, radius / 40, 20))
            assert budget.start_eps == pytest.approx(min(0.0005, radius) / 2)


def test_only_some_kinds_of_input_where_asked_to() -> None:
    subject = unhurried()
    subject.sets, subject.attack_on = {"mtax": subject}, lambda *_: None
    every = ["stax", "mtax", "stax-large", "mtax-large", "set/mtax/stax"]
    assert [part.name for part in Stax().parts(cast(Subject, subject))] == every
    for only in (["stax"], ["mtax-large", "stax"]):
        made = builder(registry)("stax", only=only)
        assert {part.name for part in made.parts(cast(Subject, subject))} == set(only)
        assert made.settings == {"only": only}
    assert Stax(eps=0.3, only=("stax",)).parts(cast(Subject, subject))  # though ten times that is more than a pixel has
    with pytest.raises(RecipeError, match="did you mean 'stax'"):
        Stax(only=("stx",))
