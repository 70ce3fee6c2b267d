"""What a user imports and prints: classes of every family from its package, arguments by name, `repr` of them all."""

from __future__ import annotations

import inspect
from types import ModuleType
from typing import Any

import pytest

from holdfast import gradients, losses, mining
from holdfast.configurable import Configurable
from holdfast.errors import RecipeError
from holdfast.gradients import Direction, PairWeight, PositiveMask, TripletWeight
from holdfast.losses import Loss, MultiSimilarity, Trimmed, Triplet
from holdfast.mining import Distance, EasyPositive, Miner, MultiSimilarityMiner, Random
from holdfast.registry import Registry

FAMILIES: list[tuple[type, ModuleType]] = [
    (Loss, losses),
    (Miner, mining),
    *((base, gradients) for base in (Direction, PairWeight, TripletWeight, PositiveMask)),
]
MEMBERS = [(family, name, package) for family, package in FAMILIES for name in Registry.of(family).names()]


@pytest.mark.parametrize(("family", "name", "package"), MEMBERS, ids=lambda value: getattr(value, "__name__", value))
def test_every_class_is_exported_and_shows_its_arguments(family: type, name: str, package: ModuleType) -> None:
    member: Any = Registry.of(family).get(name)
    home = gradients if name == "gradient" and package is losses else package
    assert getattr(home, member.__name__) is member
    assert member.__name__ in home.__all__
    made = member()
    assert isinstance(made, Configurable)
    assert list(made.arguments()) == list(inspect.signature(member).parameters)
    assert "\n" not in repr(made)


def test_front_door() -> None:
    loss = MultiSimilarity(miner="multi-similarity")
    assert loss.miner == MultiSimilarityMiner()
    shown = "alpha=2.0, beta=40.0, base=0.5, miner=MultiSimilarityMiner(epsilon=0.1), part='both', reduction='all'"
    assert repr(loss) == f"MultiSimilarity({shown})"
    assert repr(Triplet(miner=Distance())).endswith("miner=Distance(anchors='each', variant='default'), part='both')")
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
    for package in (losses, mining, gradients):
        assert "names()" in (inspect.getdoc(package.build) or "") or package is gradients
