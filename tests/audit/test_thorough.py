"""The worst case of each query, for the fewest attacks that can tell it."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from holdfast import audit
from holdfast.attacks import Attacked, UntilMissed
from holdfast.audit import ensemble, subject, thorough
from holdfast.audit.ensemble import Ensemble, Member, Robust
from holdfast.audit.plan import Passes, Progress
from holdfast.audit.preparation import Execution, Selection, make_subject
from holdfast.audit.state import AuditState, Queue, attack_all
from holdfast.audit.subject import Subject
from holdfast.cli.audit import audit_table
from holdfast.data import ImageTable
from holdfast.models import Embedder

FIRST = "alignment"


@pytest.fixture(autouse=True)
def _short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ensemble, "STEPS", 4)
    monkeypatch.setattr(subject, "SQUARE_QUERIES", 20)


@pytest.fixture
def audited(model: Embedder, table: ImageTable) -> Subject:
    return make_subject(model.eval(), Selection(table, "test", 40), Execution())[0]


class Played:
    """Attacks whose outcomes are drawn, and who was attacked by which of them at which eps."""

    def __init__(self, audited: Subject, seed: int) -> None:
        self.subject, self.draw = audited, torch.Generator().manual_seed(seed)
        self.names = [member.name for member in thorough.suite(audited, audit.Thorough().budget(audited))]
        shape = (len(self.names), len(thorough.EPS), len(audited.rows))
        self.holds = torch.rand(shape, generator=self.draw) < 0.8
        self.parts = torch.rand(len(audited.rows), generator=self.draw).double()
        """How much of a perturbation each query needs."""
        self.asked: dict[int, list[tuple[float, str, bool]]] = {place: [] for place in range(len(audited.rows))}
        """Of each query, in turn: the eps, the attack, and whether it ends where the query is broken."""

    def run(self, member: Member, audited: Subject, goal: Any, block: slice, left: Tensor | None = None) -> Attacked:
        rows = audited.rows[block] if left is None else audited.rows[block][left]
        places = [self.subject.rows.tolist().index(row) for row in rows.tolist()]
        for place in places:
            self.asked[place].append((member.budget.eps, member.name, isinstance(goal, UntilMissed)))
        references, eps = audited.references, thorough.EPS.index(member.budget.eps)
        wrong, _ = references.extreme(references.clean(rows), lambda cut: references.negatives(rows, cut))
        right, _ = references.extreme(references.clean(rows), lambda cut: references.positives(rows, cut))
        holds = self.holds[self.names.index(member.name), eps, places]
        vectors = references.vectors[torch.where(holds, right, wrong)]
        images = audited.images(rows)
        moved = torch.where(images < 0.5, images + member.budget.eps, images - member.budget.eps)
        nothing = torch.zeros(len(rows))
        return Attacked(moved, vectors, nothing, {}, nothing)

    def smallest(self, audited: Subject, images: Tensor, adversaries: Tensor, rows: Tensor) -> Tensor:
        places = [self.subject.rows.tolist().index(row) for row in rows.tolist()]
        return self.parts[places] * (adversaries - images).flatten(1).abs().amax(1)


@pytest.mark.parametrize("filled", [1, 20])
@pytest.mark.parametrize("seed", range(2))
def test_only_what_can_still_change_the_outcome_is_attacked(
    audited: Subject, seed: int, filled: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a GPU several attacks go through the model at once, and come to what they would have one after another."""
    played, numbers = Played(audited, seed), set()

    def together(audited: Subject, attacks: Mapping[Member, Any], *where: Any) -> list[Attacked]:
        numbers.add(len(attacks))
        return [played.run(member, audited, goal, *where) for member, goal in attacks.items()]

    monkeypatch.setattr(thorough, "run_together", together)
    monkeypatch.setattr(Subject, "filled", filled)
    monkeypatch.setattr(thorough, "smallest_eps", played.smallest)
    protocol, small = audit.Thorough(), dataclasses.replace(audited, block=7)
    parts = protocol.parts(small)
    measured, _ = attack_all(Queue.of(parts, small, Passes(), None), small, None, Progress(Passes()))
    clean = audited.references.hits(audited.references.clean(audited.rows), audited.rows) > 0
    for place, part in enumerate(played.parts.tolist()):
        radius, undecided, expected = float("inf") if clean[place] else 0.0, True, []
        for turn, eps in reversed([*enumerate(thorough.EPS)]):
            breaks = {name: not holds for name, holds in zip(played.names, played.holds[:, turn, place], strict=True)}
            smaller = eps / 2 if turn else 0
            attacks = [(FIRST, False), *((name, True) for name in breaks if name != FIRST)]
            attacks += [(name, False) for name in played.names[1 : 1 + thorough.NEAREST]]
            for name, until in attacks:
                if name == FIRST or (undecided and radius > eps if until else smaller < radius <= eps):
                    expected.append((eps, name, until))
                    radius = min(radius, eps * part) if breaks[name] else radius
            undecided = radius <= eps
            radius = radius if undecided else float("inf")
            assert bool(measured[thorough.label(eps)]["hit"][place]) != undecided
            assert float(measured[thorough.label(eps)]["radius"][place]) == pytest.approx(radius, rel=1e-4)
        if filled == 1:
            assert played.asked[place] == expected
    assert max(numbers) == (1 if filled == 1 else 5)
    robust = Robust(Ensemble(), protocol, small, parts)
    assert robust.counted == [thorough.label(eps) for eps in thorough.EPS if eps <= 8 / 255]
    assert robust.members == [], "the ensemble has been through this ball"
    assert Robust(Ensemble(eps=3 / 255), protocol, small, parts).members


def test_the_part_of_a_perturbation_that_is_kept_still_breaks(audited: Subject) -> None:
    references, rows = audited.references, audited.rows
    budget = audit.Thorough().budget(audited)
    goal = audit.ensemble.Misrank().bind(references, rows)
    found = audited.attack(audited.images(rows), goal, budget)
    right = references.hits(references.clean(rows), rows) > 0
    broken = right & (references.hits(found.vectors, rows) == 0)
    assert broken.sum() > 5
    images, adversaries = audited.images(rows)[broken], found.images[broken]
    needed = thorough.smallest_eps(audited, images, adversaries, rows[broken])
    whole = (adversaries - images).flatten(1).abs().amax(1)
    assert (needed <= whole.double() + 1e-9).all()
    assert (needed < 0.9 * whole).any(), "most go farther than they must"

    def hits(lengths: Tensor) -> Tensor:
        shorter = images + (lengths / whole).float().view(-1, 1, 1, 1) * (adversaries - images)
        return references.hits(audited.encode(shorter), rows[broken])

    assert not hits(needed).any()
    assert hits(needed - whole / 2**thorough.HALVINGS).all()


def test_a_killed_audit_goes_on_from_what_larger_eps_left(
    audited: Subject, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    small = dataclasses.replace(audited, rows=audited.rows[:12], block=8)
    protocol = audit.Thorough(eps=4 / 255)

    def measure(state: AuditState | None) -> dict[str, dict[str, Tensor]]:
        queue = Queue.of(protocol.parts(small), small, protocol.passes(small), state)
        return attack_all(queue, small, state, Progress(Passes()))[0]

    whole, real, kept = measure(None), AuditState.put, []

    def dies(self: AuditState, part: str, *rest: Any) -> None:
        if len(kept) == 3:
            raise KeyboardInterrupt
        real(self, part, *rest)
        kept.append(part)

    with monkeypatch.context() as patch:
        patch.setattr(AuditState, "put", dies)
        with pytest.raises(KeyboardInterrupt):
            measure(AuditState(tmp_path / "state", {}))
    assert kept == ["eps=4/255", "eps=4/255", "eps=2/255"]
    resumed = measure(AuditState(tmp_path / "state", {}))
    assert resumed.keys() == whole.keys()
    for part, values in whole.items():
        for name, value in values.items():
            torch.testing.assert_close(resumed[part][name], value, msg=f"{part} {name}")
    assert whole["eps=4/255"]["hit"].mean() < whole["eps=0.25/255"]["hit"].mean()


def test_the_terminal_shows_the_smallest_eps_in_grey_levels() -> None:
    described = {key: info.plain() for key, info in audit.Thorough().describe().items()}
    budget = {"eps_pixel": 16 / 255, "eps_normalized": 32 / 255, "steps": 8, "norm": "linf"}
    document = {"protocol": "thorough", "mode": "fixed", "images": 4, "gallery": 9, "budget": budget, "limit": None}
    figures = {"metrics": {"breaking_eps": 10.5 / 255}, "intervals": {"breaking_eps": [10 / 255, 12 / 255]}}
    told = audit_table({**document, **figures, "described": described, "flags": []})
    assert "breaking_eps 10.5 10.0 to 12.0" in " ".join(told.split())
