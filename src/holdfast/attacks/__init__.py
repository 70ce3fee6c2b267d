"""Attacks on embeddings: one optimiser, many goals."""

from holdfast.attacks.base import BoundGoal, Goal, register, registry
from holdfast.attacks.budget import Budget
from holdfast.attacks.pgd import craft, pgd, sweep
from holdfast.attacks.references import References
from holdfast.attacks.result import Attacked, Crafted, worst
from holdfast.attacks.square import square
from holdfast.config import builder

build, names = builder(registry), registry.names

__all__ = [
    "Attacked",
    "BoundGoal",
    "Budget",
    "Crafted",
    "Goal",
    "References",
    "build",
    "craft",
    "names",
    "pgd",
    "register",
    "square",
    "sweep",
    "worst",
]
