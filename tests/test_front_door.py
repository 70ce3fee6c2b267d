"""What a user imports and prints: classes of every family from its package, arguments by name, `repr` of them all."""

from __future__ import annotations

import inspect
import re
from collections import Counter
from pathlib import Path
from types import ModuleType, UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

import pytest
import torch
from torch import Generator, Tensor

import holdfast
from holdfast import attacks, extras, gradients, losses, mining, regimes
from holdfast.attacks import BoundGoal, Goal, References
from holdfast.configurable import Configurable
from holdfast.errors import RecipeError
from holdfast.extras import Extra
from holdfast.gradients import Direction, PairWeight, PositiveMask, TripletWeight
from holdfast.losses import Loss, MultiSimilarity, Trimmed, Triplet
from holdfast.mining import Distance, EasyPositive, Miner, MultiSimilarityMiner, Random
from holdfast.regimes import Batch, Destination, HardnessManipulation, Regime, StepContext, StepResult
from holdfast.registry import Registry

FAMILIES: list[tuple[type, ModuleType]] = [
    (Loss, losses),
    (Miner, mining),
    (Goal, attacks),
    (Regime, regimes),
    (Destination, regimes),
    (Extra, extras),
    *((base, gradients) for base in (Direction, PairWeight, TripletWeight, PositiveMask)),
]
NEEDED: dict[str, tuple[Any, ...]] = {"sum": (["shift"],), "worst-of": (["shift"],), "teacher": ("runs/plain",)}
MEMBERS = [(family, name, package) for family, package in FAMILIES for name in Registry.of(family).names()]


@pytest.mark.parametrize(("family", "name", "package"), MEMBERS, ids=lambda value: getattr(value, "__name__", value))
def test_every_class_is_exported_and_shows_its_arguments(family: type, name: str, package: ModuleType) -> None:
    member: Any = Registry.of(family).get(name)
    home = gradients if name == "gradient" and package is losses else package
    assert getattr(home, member.__name__) is member
    assert member.__name__ in home.__all__
    made = member(*NEEDED.get(name, ()))
    assert isinstance(made, Configurable)
    assert list(made.arguments()) == list(inspect.signature(member).parameters)
    assert "\n" not in repr(made)


def _words(kind: Any) -> tuple[Any, ...]:
    kinds = get_args(kind) if get_origin(kind) in (Union, UnionType) else (kind,)
    return tuple(word for each in kinds if get_origin(each) is Literal for word in get_args(each))


@pytest.mark.parametrize(("family", "name", "package"), MEMBERS, ids=lambda value: getattr(value, "__name__", value))
def test_unknown_words_are_refused_and_known_ones_taken(family: type, name: str, package: ModuleType) -> None:
    member: Any = Registry.of(family).get(name)
    known = {argument: _words(kind) for argument, kind in get_type_hints(member.__init__).items()}
    for argument, words in known.items():
        if words:
            with pytest.raises(RecipeError, match=f"{argument}: unknown value 'zzz'"):
                member(*NEEDED.get(name, ()), **{argument: "zzz"})
            assert member(*NEEDED.get(name, ()), **{argument: words[-1]}).arguments()[argument] == words[-1]


def test_front_door() -> None:
    loss = MultiSimilarity(miner="multi-similarity")
    assert loss.miner == MultiSimilarityMiner()
    shown = "alpha=2.0, beta=40.0, base=0.5, miner=MultiSimilarityMiner(epsilon=0.1), part='both', memory=None"
    assert repr(loss) == f"MultiSimilarity({shown}, reduction='all')"
    distance = "miner=Distance(anchors='each', variant='default')"
    assert repr(Triplet(miner=Distance(), memory=64)).endswith(f"{distance}, part='both', memory=64)")
    assert EasyPositive("semihard").negative == mining.SemiHard()
    assert Trimmed("contrastive").loss.margin == 1.0
    assert gradients.DirectGradient(pair="sig").pair.beta == 10.0
    assert Random() == Random()


@pytest.mark.parametrize("wrong", ["multi-similarty", {"name": "multi-similarty"}])
def test_a_wrong_name_is_refused_with_the_nearest(wrong: Any) -> None:
    for build in (lambda: MultiSimilarity(miner=wrong), lambda: losses.build("triplet", miner=wrong)):
        with pytest.raises(RecipeError, match="multi-similarity"):
            build()


def test_build_says_what_it_does() -> None:
    for package in (losses, mining, regimes, attacks, gradients):
        assert "names()" in (inspect.getdoc(package.build) or "") or package is gradients


def test_a_regime_outside_a_recipe() -> None:
    regime = HardnessManipulation(source="softhard")
    assert regime.source == mining.SoftHard()
    assert repr(HardnessManipulation()) == repr(regime)
    assert "destination=ConstantHardness(value=-0.1)" in repr(HardnessManipulation(destination=-0.1))
    assert "destination=MinerHardness(miner=SemiHard(" in repr(HardnessManipulation(destination="semihard"))
    assert "step=0.5" in repr(regimes.FreeHardnessManipulation(step=0.5))
    assert [d.goal.least_classes for d in regimes.MDProp().distributions] == [2, 6]


def my_model() -> torch.nn.Module:
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Conv2d(3, 4, 3), torch.nn.Flatten(), torch.nn.Linear(4 * 6 * 6, 8))


def test_an_attack_on_a_plain_module() -> None:
    model, images = my_model(), torch.rand(6, 3, 8, 8)
    labels = torch.tensor([0, 0, 0, 1, 1, 1])
    goal = attacks.Misrank().bind(References(model(images), labels), torch.arange(6))
    attack = holdfast.attacks.pgd(model, images, goal, holdfast.Budget(eps=8 / 255))
    assert (attack.images - images).abs().max() <= 8 / 255
    assert (attack.loss < goal.loss(torch.nn.functional.normalize(model(images)))).all()
    assert set(attack.measures["hit"].tolist()) <= {0.0, 1.0}


class Pairs(Goal):
    """A grouped goal of a user's."""

    group_size = 2

    def bind(self, references: References, rows: Tensor, generator: Generator | None = None) -> BoundGoal:
        return attacks.Collapse().bind(references, rows, generator)


class Doubled(Regime):
    """A regime of a user's."""

    in_words = "learning everything twice"

    def __init__(self, factor: float = 2.0) -> None:
        self.factor = factor

    def step(self, ctx: StepContext, batch: Batch) -> StepResult:
        encoded = ctx.encode(batch.images, batch.labels)
        return StepResult(loss=self.factor * ctx.criterion(encoded), encoded=encoded)


def test_goals_and_regimes_of_a_user() -> None:
    assert repr(Doubled()) == "Doubled(factor=2.0)"
    assert Doubled().passes == 1
    for goal in (Pairs(), attacks.Sum([Pairs(), "collapse"]), "hardness"):
        with pytest.raises(RecipeError, match="single-target"):
            regimes.AdversarialTraining(goal)


def test_a_class_name_means_one_thing() -> None:
    source = Path(__file__).resolve().parents[1] / "src"
    found = [re.findall(r"^class ([A-Z]\w*)", file.read_text("utf-8"), re.MULTILINE) for file in source.rglob("*.py")]
    assert [name for name, count in Counter(name for names in found for name in names).items() if count > 1] == []
