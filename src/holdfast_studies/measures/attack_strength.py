"""What an attack does to a model."""

from __future__ import annotations

import dataclasses
from typing import Literal

import torch

from holdfast.attacks import Budget
from holdfast.attacks.frozen import frozen
from holdfast.audit.adml import fixed_attack
from holdfast.audit.figures import searched
from holdfast.audit.preparation import Execution, Selection, make_subject
from holdfast.devices import seeded_devices
from holdfast.errors import RecipeError
from holdfast.evaluation import choose_split
from holdfast.metrics.retrieval import Retrieval
from holdfast.sphere import distance
from holdfast_studies.probes import Found, ProbeFunction, Scene, register

BUDGET = Budget(eps=0.0314, step=0.007, steps=7)
"""Of ADML's evaluation."""


@register("attack-strength")
@dataclasses.dataclass(frozen=True, kw_only=True)
class AttackStrength(ProbeFunction):
    """How far an attack on single queries lowers R@1, and how far it moves them.

    Figures: `R@1` under attack, `drop` from the clean R@1 of the same queries, `shift`, the mean distance between
    clean and attacked vectors.

    Args:
        goal: what the attacker wants, by name.
        margin: hinge of the goal `triplet`; None for none.
        eps: radius; steps keep the proportion of ADML's.
        units: of the radius.
        limit: images attacked; None for all.

    Requirements: a model, and images with labels.
    Reference: ADML, Figure 3.
    """

    goal: str
    margin: float | None = None
    eps: float = 0.0314
    units: Literal["pixel", "normalized"] = "pixel"
    limit: int | None = 500

    def __call__(self, scene: Scene) -> Found:
        """Attack."""
        if scene.model is None or scene.table is None:
            raise RecipeError("attack-strength attacks a model on images; give the computation data and a backbone")
        split = choose_split(scene.table, None)
        with frozen(scene.model), torch.random.fork_rng(seeded_devices(scene.device)):
            subject, _, _ = make_subject(
                scene.model, Selection(scene.table, split, self.limit, scene.seed), Execution(batch=256)
            )
            budget = dataclasses.replace(BUDGET.with_eps(self.eps), units=self.units).in_pixels(subject.std)
            goal = {"name": self.goal, **({} if self.margin is None else {"margin": self.margin})}
            attack = fixed_attack(subject, self.goal, goal, budget)
            starts = range(0, len(subject.rows), subject.block)
            moved = torch.cat([attack(slice(start, start + subject.block))["vectors"] for start in starts])
        clean = subject.references.clean(subject.rows)
        before, after = (
            100 * float(Retrieval((1,)).per_query(searched(subject, vectors, "fixed"))["R@1"].nanmean())
            for vectors in (clean, moved)
        )
        return Found(figures={"R@1": after, "drop": before - after, "shift": float(distance(moved, clean).mean())})
