"""Robust R@1 counts every attack of an audit, and nothing else."""

from __future__ import annotations

import dataclasses
import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from holdfast import attacks, audit
from holdfast.attacks import Budget, UntilMissed
from holdfast.attacks.forward import counting
from holdfast.attacks.goals.composed import Stacked
from holdfast.audit import ensemble, ers, runner, subject
from holdfast.audit.base import Part
from holdfast.audit.ensemble import Ensemble, Member, Robust, members
from holdfast.audit.figures import Figures
from holdfast.audit.plan import Passes, Progress
from holdfast.audit.preparation import Execution, Selection, make_subject
from holdfast.audit.state import AuditState, read_measurements
from holdfast.audit.subject import Subject
from holdfast.cli import main
from holdfast.cli.audit import audit_table
from holdfast.data import ImageTable
from holdfast.errors import RecipeError
from holdfast.models import Embedder

WEAK = 1 / 255
"""At this eps some queries hold, so that the whole ensemble has work."""


@pytest.fixture(autouse=True)
def _short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ensemble, "STEPS", 4)
    monkeypatch.setattr(ers, "STEPS", 4)
    monkeypatch.setattr(subject, "SQUARE_QUERIES", 20)


@pytest.fixture
def audited(model: Embedder, table: ImageTable) -> Subject:
    return make_subject(model.eval(), Selection(table, "test", 40), Execution())[0]


@pytest.mark.parametrize("seed", range(12))
def test_it_is_the_count_of_a_plain_loop(audited: Subject, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Outcomes of attacks are drawn; some queries have nothing to find, some are wrong when clean."""
    draw = torch.Generator().manual_seed(seed)
    count, within = len(audited.rows), Budget(eps=8 / 255)
    share = float(torch.rand((), generator=draw))

    def outcomes() -> Tensor:
        return (torch.rand(count, generator=draw) < 0.5 + share / 2).float()

    balls = {"near": Budget(eps=2 / 255), "rounded": Budget(eps=0.0314), "far": Budget(eps=9 / 255)}
    balls |= {"other norm": Budget(eps=8 / 255, norm="l2")}
    parts = [Part(name, lambda block: {}, budget=budget) for name, budget in balls.items()]
    parts += [Part("joint", lambda block: {}), Part("ca+", lambda block: {}, budget=within)]
    parts += [Part("ca-", lambda block: {}, budget=within)]
    measured: dict[str, dict[str, Tensor]] = {part.name: {"hit": outcomes()} for part in parts}
    first, last = torch.ones(count), torch.full((count,), 99.0)
    measured |= {"ca+": {"place": first, "clean_place": last}, "ca-": {"place": last, "clean_place": first}}
    names = [member.name for member in members(audited, Ensemble().budget(audited, None))]
    assert names[0] == "apgd-misrank"
    assert names[-1] == "square"
    drawn = {name: outcomes() for name in names}
    where = {int(row): place for place, row in enumerate(audited.rows)}
    asked: dict[str, set[int]] = {name: set() for name in names}

    def run(narrowed: Subject, attacks: dict[Member, Any], block: slice) -> list[Any]:
        places = [where[int(row)] for row in narrowed.rows[block]]
        for member in attacks:
            asked[member.name] |= set(places)
        return [SimpleNamespace(measures={"hit": drawn[member.name][places]}) for member in attacks]

    clean = audited.references.hits(audited.references.clean(audited.rows), audited.rows)
    monkeypatch.setattr(ensemble, "run_together", run)
    robust = Robust(Ensemble(), audit.Ers(), dataclasses.replace(audited, block=7), parts)
    robust.attack(measured, None, Progress(Passes()))
    held, figures = 0, Figures(0)
    for place in range(count):
        holds = bool(clean[place] > 0)
        for name in ("near", "rounded"):
            holds = holds and bool(measured[name]["hit"][place])
        for name in names:
            assert (place in asked[name]) == holds, "what is broken is not attacked again"
            holds = holds and bool(drawn[name][place])
        held += holds
    robust.report(figures, measured)
    assert figures.values["robust R@1"] == pytest.approx(100 * held / count)
    document = figures.extra["robust"]
    assert document["queries"] == count
    assert sum(document["broken_by"].values()) == int((clean > 0).sum()) - held
    assert document["attacks"][:2] == ["near", "rounded"]
    assert not {"far", "other norm", "joint", "ca+"} & set(document["attacks"])


class InDouble(nn.Module):
    """A model whose outcome does not depend on which images go through it together, in no bit that counts."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model.double()

    def forward(self, images: Tensor) -> Tensor:
        vectors: Tensor = self.model(images.double())
        return vectors.float()


@pytest.fixture
def steady(audited: Subject) -> Subject:
    return dataclasses.replace(audited, model=InDouble(audited.model).eval())


def test_attacks_in_the_same_passes_come_to_what_each_comes_to_alone(steady: Subject) -> None:
    references, rows, passes = steady.references, steady.references.rows(steady.rows), Counter[str]()
    attacks = members(steady, Ensemble(eps=WEAK).budget(steady, None))
    number = ensemble.together(attacks, 10, 1000)
    assert [member.name for member in attacks[:number]] == ["apgd-misrank", "apgd-soft-misrank"] + [
        f"apgd-target-{rank}" for rank in (1, 2, 3)
    ]
    assert [ensemble.together(attacks, 10, most) for most in (1, 19, 20, 49, 50)] == [1, 1, 2, 4, 5]
    assert ensemble.together(attacks[-1:] * 2, 10, 1000) == 1, "a search goes alone"
    goals = {member: UntilMissed(member.bind(steady), references, rows) for member in attacks[:number]}
    block, left = slice(3, 30), torch.arange(0, 27, 2)
    with counting(lambda images, back: passes.update(["together"])):
        found = ensemble.run_together(steady, goals, block, left)
    with counting(lambda images, back: passes.update(["alone"])):
        alone = [one for member in goals for one in ensemble.run_together(steady, {member: goals[member]}, block, left)]
    assert passes["together"] < passes["alone"] / 3
    for one, other in zip(found, alone, strict=True):
        assert one.measures["hit"].tolist() == other.measures["hit"].tolist()
        torch.testing.assert_close(one.vectors, other.vectors, atol=1e-5, rtol=0)
    stacked = Stacked([goal.take(block) for goal in goals.values()], 27)
    with pytest.raises(RecipeError, match="cannot be cut"):
        dataclasses.replace(steady, chunk=100).attack(torch.zeros(135, 3, 32, 32), stacked, attacks[0].budget)


def test_robust_recall_is_the_same_when_attacks_share_their_passes(
    steady: Subject, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those from random places begin elsewhere, so that only the others can be compared."""
    held = []
    monkeypatch.setattr(Robust, "_attack_candidates", lambda *_: None)
    for filled in (1, 100):
        monkeypatch.setattr(Subject, "filled", filled)
        robust = Robust(Ensemble(eps=WEAK), audit.Ers(), dataclasses.replace(steady, block=7), [])
        robust.members = robust.members[:5]
        measured: dict[str, dict[str, Tensor]] = {}
        robust.attack(measured, None, Progress(Passes()))
        held.append((robust.hit.tolist(), robust.broken_by, measured["robust"]["by"].tolist()))
    assert held[0] == held[1]
    assert 0 < sum(held[0][0]) < len(steady.rows)


def test_gallery_images_that_the_protocol_left_are_attacked_again(steady: Subject) -> None:
    """Each pair counts by the better of both attacks; what is moved already is not attacked again."""
    once, full = Budget(eps=8 / 255, steps=1, step=2 / 255), Ensemble().budget(steady, None)
    attacked: dict[Budget, dict[str, dict[str, Tensor]]] = {
        budget: {
            name: steady.attack_on(name, name, budget, lambda found: found.measures, asks=False)(slice(None))
            for name in ("ca+", "ca-")
        }
        for budget in (once, full)
    }
    parts = [Part(name, lambda block: {}, budget=Budget(eps=8 / 255)) for name in ("ca+", "ca-")]
    robust, figures, passes = (
        Robust(Ensemble(), audit.Ers(), dataclasses.replace(steady, block=7), parts),
        Figures(0),
        [0],
    )
    robust.members = []
    measured = {name: dict(found) for name, found in attacked[once].items()}

    def count(images: int, back: bool) -> None:
        passes[0] += images * back

    with counting(count):
        robust.attack(measured, None, Progress(Passes()))
    robust.report(figures, measured)
    left = 0
    for name, figure in (("ca+", "gallery enters@10"), ("ca-", "gallery leaves@10")):

        def reached(place: float, name: str = name) -> bool:
            return place <= 10 if name == "ca+" else place > 10

        weak, strong = (attacked[budget][name]["place"].tolist() for budget in (once, full))
        moved = [reached(one) or reached(other) for one, other in zip(weak, strong, strict=True)]
        before = [reached(place) for place in attacked[once][name]["clean_place"].tolist()]
        asked = [now for now, was in zip(moved, before, strict=True) if not was]
        assert figures.values[figure] == pytest.approx(100 * sum(asked) / len(asked))
        assert sum(moved) > sum(map(reached, weak)), "one step does not do all that thirty do"
        left += sum(not reached(place) for place in weak)
    assert 0 < passes[0] <= full.steps * left


def test_gallery_images_are_not_searched_for_twice_without_gradients(audited: Subject) -> None:
    """The protocol searched at random as the ensemble would: what it came to stands."""
    blind, count = dataclasses.replace(audited, differentiable=False), len(audited.rows)
    parts = [Part(name, lambda block: {}, budget=Budget(eps=8 / 255)) for name in ("ca+", "ca-")]
    robust = Robust(Ensemble(), audit.Ers(), blind, parts)
    assert robust.passes() == blind.search_passes, "the one member"
    robust.members = []
    places = {"place": torch.full((count,), 30.0), "clean_place": torch.full((count,), 40.0)}
    measured = {name: dict(places) for name in ("ca+", "ca-")}
    with counting(lambda images, back: pytest.fail("nothing is attacked")):
        robust.attack(measured, None, Progress(Passes()))
    for name in ("ca+", "ca-"):
        assert measured[f"ensemble/{name}"]["place"].tolist() == places["place"].tolist()


@pytest.mark.parametrize("protocol", ["ers", "adml", "stax", "thorough"])
def test_it_is_never_above_a_single_attack(protocol: str, model: Embedder, table: ImageTable, tmp_path: Path) -> None:
    document = audit.run(model, table, protocol, limit=10, out=tmp_path).document
    measured = read_measurements(tmp_path / document["artifacts"][0])
    robust = measured["robust"]["hit"]
    assert document["metrics"]["robust R@1"] == pytest.approx(100 * float(robust.mean()))
    own = {"ers": 7, "adml": 3, "stax": 2, "thorough": 4}[protocol]  # stax and thorough also go beyond 8/255
    counted = [name for name in document["robust"]["attacks"] if name in measured]
    assert len(counted) == own
    for name in counted:
        assert (robust <= measured[name]["hit"]).all(), name
    keys = ["R@1", "ES:R", "LTM", "GTM", *(f"{name}/R@1" for name in counted), *(f"{name} R@1" for name in counted)]
    for key in keys:
        assert document["metrics"]["robust R@1"] <= document["metrics"].get(key, 100) + 1e-9, key
    low, high = document["intervals"]["robust R@1"]
    assert low <= document["metrics"]["robust R@1"] <= high
    assert document["schema"] == 2
    assert list(document["metrics"])[:2] == ["R@1", "robust R@1"]
    for key in ("gallery enters@10", "gallery leaves@10"):
        assert 0 <= document["metrics"][key] <= 100
        assert document["described"][key]["better"] == "lower"


def test_a_killed_audit_goes_on_and_gives_the_same_figure(
    model: Embedder, table: ImageTable, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runner, "speed_up", lambda prepared, *_: dataclasses.replace(prepared, block=8))
    arguments: dict[str, Any] = {"protocol": audit.Adml(eps=WEAK), "limit": 24}
    whole = audit.run(model, table, out=tmp_path / "whole", **arguments).document
    real, kept = AuditState.put, []
    deaths = iter((12, 17, 20))  # the protocol makes 9 blocks, the gallery 6, the rest is the ensemble's

    def dies(self: AuditState, part: str, *rest: Any) -> None:
        if len(kept) == death:
            raise KeyboardInterrupt
        real(self, part, *rest)
        kept.append(part)

    with monkeypatch.context() as patch:
        patch.setattr(AuditState, "put", dies)
        while death := next(deaths, 0):
            with pytest.raises(KeyboardInterrupt):
                audit.run(model, table, out=tmp_path / "cut", **arguments)
    assert any(part.startswith("ensemble/apgd-misrank") for part in kept)
    resumed = audit.run(model, table, out=tmp_path / "cut", **arguments).document
    assert resumed["metrics"] == whole["metrics"]
    assert {**resumed["robust"], "seconds": 0} == {**whole["robust"], "seconds": 0}, "passes before the kill count too"
    assert 0 < whole["metrics"]["robust R@1"] < whole["metrics"]["R@1"]
    assert not list((tmp_path / "cut" / "artifacts").glob("*.partial"))


def test_the_ball_is_that_of_the_protocol_where_it_was_asked_for_in_pixels(audited: Subject) -> None:
    def eps(protocol: audit.Protocol, chosen: Ensemble = Ensemble()) -> float:  # noqa: B008
        return Robust(chosen, protocol, audited, []).budget.eps

    assert eps(audit.Ers()) == eps(audit.Thorough()) == eps(audit.Stax(eps=0.05)) == pytest.approx(8 / 255)
    assert eps(audit.Ers(eps=4 / 255)) == eps(audit.Thorough(eps=4 / 255)) == pytest.approx(4 / 255)
    assert eps(audit.Adml(eps=4 / 255)) == pytest.approx(4 / 255)
    assert eps(audit.Adml(eps=0.1, units="normalized")) == pytest.approx(8 / 255)
    assert eps(audit.Ers(eps=4 / 255), Ensemble(eps=2 / 255)) == pytest.approx(2 / 255)
    assert eps(audit.Ers(), Ensemble("l2")) == pytest.approx(2 / 255 * (3 * audited.size**2) ** 0.5)
    small = dataclasses.replace(audited, size=28)
    assert Ensemble().budget(small, None).eps == pytest.approx(77 / 255)


def test_an_l2_ball_counts_attacks_of_its_norm(model: Embedder, table: ImageTable) -> None:
    found = audit.run(model, table, limit=12, ensemble=Ensemble(norm="l2", eps=0.5)).document
    robust = found["robust"]
    assert (robust["norm"], robust["eps"]) == ("l2", 0.5)
    assert all(name.startswith("apgd-") for name in robust["attacks"]), "neither those of ers nor squares"
    assert found["metrics"]["robust R@1"] <= found["metrics"]["R@1"]
    tiny = audit.run(model, table, limit=12, ensemble={"norm": "l2", "eps": "1e-6"}).document["metrics"]
    assert tiny["robust R@1"] == tiny["R@1"]
    assert (tiny["gallery enters@10"], tiny["gallery leaves@10"]) == (0, 0)


def test_without_gradients_only_the_search_runs(audited: Subject) -> None:
    blind = dataclasses.replace(audited, differentiable=False)
    assert [member.name for member in Robust(Ensemble(), audit.Ers(), blind, []).members] == ["square"]
    with pytest.raises(RecipeError, match="gradients"):
        Robust(Ensemble("l2"), audit.Ers(), blind, [])


@pytest.mark.parametrize(
    "make", [lambda: Ensemble(eps=0.0), lambda: Ensemble(eps=8), lambda: Ensemble("l1"), lambda: Ensemble("l2", -1)]
)
def test_balls_that_are_none(make: Callable[[], Ensemble]) -> None:
    with pytest.raises(RecipeError, match="robust R@1"):
        make()


def test_what_is_broken_takes_no_more_steps(audited: Subject) -> None:
    """An attack that may stop breaks at least what one that goes on does, in fewer passes."""
    budget, made = Budget(eps=8 / 255, steps=20, method="apgd"), [0, 0]
    goal = attacks.build("es").bind(audited.references, audited.rows)
    on = audited.attack(audited.images(audited.rows), goal, budget).measures["hit"]

    def count(images: int, back: bool) -> None:
        made[back] += images

    with counting(count):
        until = UntilMissed(goal, audited.references, audited.rows)
        off = audited.attack(audited.images(audited.rows), until, budget).measures["hit"]
    assert off.mean() <= on.mean()
    margin = attacks.build("misrank").bind(audited.references, audited.rows)
    made[:] = [0, 0]
    with counting(count):
        until = UntilMissed(margin, audited.references, audited.rows)
        far = dataclasses.replace(budget, eps=0.3)
        assert not audited.attack(audited.images(audited.rows), until, far).measures["hit"].any()
    assert made[1] < 20 * len(audited.rows)


def test_places_in_a_list_equal_a_loop(audited: Subject) -> None:
    for name in ("ca+", "ca-"):
        bound = attacks.build(name).bind(audited.references, audited.rows, torch.Generator().manual_seed(0))
        z = torch.nn.functional.normalize(torch.randn(len(audited.rows), audited.references.vectors.shape[1]), dim=1)
        found = bound.measure(z)
        vectors = audited.references.vectors
        for i, (row, query) in enumerate(zip(audited.rows.tolist(), bound.target.tolist(), strict=True)):  # type: ignore[attr-defined]
            others = [j for j in range(len(vectors)) if j not in (row, query)]
            for key, own in (("place", z[i]), ("clean_place", vectors[row])):
                nearer = sum(bool((vectors[j] - vectors[query]).norm() < (own - vectors[query]).norm()) for j in others)
                assert abs(float(found[key][i]) - 1 - nearer) <= 1  # two may be as near, up to a rounding


def test_a_small_gallery_has_a_shorter_list(model: Embedder, table: ImageTable) -> None:
    few = table.subset(np.isin(table.labels, np.unique(table.labels)[:2]))
    metrics = audit.run(model, few, limit=8).document["metrics"]
    assert {"gallery enters@4", "gallery leaves@4"} <= metrics.keys()


def test_the_command_and_an_audit_of_schema_1(run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["audit", str(run), "--data", "glyphs", "--limit", "8", "--out", str(tmp_path)]
    assert main([*words, "--robust-norm", "l2", "--robust-eps", "1/4"]) == 0
    printed = capsys.readouterr().out
    assert "at eps 0.25 in L2; the ensemble took" in printed
    assert printed.index("\nR@1") < printed.index("\nrobust R@1  ") < printed.index("\nERS") < printed.index("\nCA+")
    old = json.loads((tmp_path / "audit.json").read_text("utf-8"))
    old["schema"] = 1
    del old["robust"]
    for part in ("metrics", "described", "intervals"):
        old[part] = {key: value for key, value in old[part].items() if "robust" not in key and "gallery" not in key}
    assert "robust" not in audit_table(old)
    assert "ERS" in audit_table(old)
