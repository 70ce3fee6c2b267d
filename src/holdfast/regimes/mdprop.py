"""Several distributions of inputs, each with a BatchNorm set of its own (MDProp)."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Mapping
from typing import Any, Literal, TypeAlias

import torch
from torch import Generator, Tensor

from holdfast.attacks import Budget, Goal, References
from holdfast.attacks.frozen import Statistics
from holdfast.attacks.goals.targets import BoundTargets, MultiTarget, SingleTarget
from holdfast.errors import DataError, ModelError, RecipeError
from holdfast.losses import Encoded
from holdfast.models.bank import CLEAN, SetStart, check_name
from holdfast.regimes.adversaries import adversaries, least_classes, refuse_groups, shift
from holdfast.regimes.base import Batch, Regime, StepContext, StepResult, register
from holdfast.regimes.budgets import ONE_STEP
from holdfast.regimes.checks import require_not_negative

Variant: TypeAlias = Literal["paper", "released"]

DISTRIBUTIONS: tuple[dict[str, Any], ...] = (
    {"name": "stax", "goal": "single-target"},
    {"name": "mtax", "goal": {"name": "multi-target", "targets": 5}},
)
"""As a recipe writes them: MDProp with two extra sets."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Distribution:
    """Inputs made from the clean ones, and the BatchNorm set they go through.

    Args:
        name: of its set, and in the log.
        goal: where images are moved; any goal that moves them one by one, or the batch as a whole.
        budget: how far, and in how many steps.
        noise: deviation of normal noise on the weights and biases its set starts with (γ of the paper).
    """

    name: str
    goal: Goal
    budget: Budget = ONE_STEP
    noise: float = 0.0

    def __post_init__(self) -> None:
        try:
            check_name(self.name)
        except ModelError as error:
            raise RecipeError(str(error)) from error
        refuse_groups(self.goal)
        require_not_negative(f"distribution '{self.name}': noise", self.noise)


@register("mdprop")
class MDProp(Regime):
    """Learn from clean and several kinds of moved images, a BatchNorm set each; 1 + Σ_k (η_k + 1) passes per step.

    Σ_k L(x^k), x¹ = x clean, x^k = x moved towards goal k in η_k steps

    The clean set is the model: what is learnt about the other distributions reaches it through all other weights.
    `paper`: targets are the clean batch seen through the clean set, x^k is crafted and learnt through set k, and each
    distribution has a loss of its own. `released` differs, as the authors' code does, in five ways: the batch is cut
    into as many consecutive parts as there are distributions and only part k is moved for set k; targets are that part,
    seen through set k; they are drawn without looking at labels, as T permutations of the part, so that a target may be
    of the own class, drawn twice, or the image itself; one joint loss is taken over the clean batch and all moved
    parts; and the running statistics of the auxiliary sets start from scratch. The authors train in parallel on three
    devices, each with parts of its own third of a batch, and hold pixels between the least and the greatest of a part;
    here a batch is one, and pixels stay in [0, 1].

    The log has each loss as `loss/NAME` (`released` has only the joint one) and, as `shift/NAME`, the mean distance
    between moved images and the same clean ones, each seen through its own set.

    Args:
        distributions: beside the clean one; by default single-target and five-target adversaries.
        variant: of the paper, or of its released code.
        separate: False sends everything through the clean set.
        statistics: what BatchNorm layers use while observing and crafting: running statistics (`eval`), or what they
            use in training (`keep`).

    Requirements: BatchNorm layers, unless they are shared; what the goals require of a batch: multi-target needs more
        classes in it than targets; `released` an image for each distribution.
    Relations: `advprop-d` has one extra set; `at` learns from moved images alone; with `separate: false` and one
        distribution it is `adml` with a weight of 1.
    Reference: MDProp, Algorithm 1; `released`: github.com/intherejeet/MDProp.
    """

    advice = (
        "lower eps or steps in the budgets of regime.distributions, start from a trained model (init), "
        "or use another loss"
    )

    def __init__(
        self,
        distributions: list[Distribution] = DISTRIBUTIONS,  # type: ignore[assignment]
        variant: Variant = "paper",
        separate: bool = True,
        statistics: Statistics = "eval",
    ) -> None:
        if not distributions:
            raise RecipeError("regime.distributions is empty; name one or more, or use regime: standard")
        twice = [name for name, count in Counter(d.name for d in distributions).items() if count > 1]
        if twice:
            raise RecipeError(f"regime.distributions has '{twice[0]}' twice; give each its own name")
        for distribution in distributions:
            if variant == "released" and not isinstance(distribution.goal, (SingleTarget, MultiTarget)):
                raise RecipeError(
                    f"distribution '{distribution.name}': variant released draws targets without looking at labels, "
                    "so its goals are single-target or multi-target; use variant: paper"
                )
            if distribution.noise and not separate:
                raise RecipeError(
                    f"distribution '{distribution.name}': noise is for the start of a BatchNorm set of its own, "
                    "which separate: false takes away; leave one of them out"
                )
        self.distributions = list(distributions)
        self.variant = variant
        self.separate = separate
        self.statistics = statistics
        if variant == "paper":  # `released` does not look at classes
            self.least_classes = max(least_classes(distribution.goal) for distribution in distributions)

    @property
    def passes(self) -> int:
        """One for the clean images; for each distribution, those of its crafting and one."""
        return 1 + sum(distribution.budget.steps + 1 for distribution in self.distributions)

    def sets(self) -> tuple[SetStart, ...]:
        """One per distribution; none where all share the clean one."""
        fresh = self.variant == "released"
        return tuple(SetStart(d.name, d.noise, fresh) for d in self.distributions if self.separate)

    def step(self, ctx: StepContext, batch: Batch) -> StepResult:
        """Observe, move, learn."""
        return self._paper(ctx, batch) if self.variant == "paper" else self._released(ctx, batch)

    def _paper(self, ctx: StepContext, batch: Batch) -> StepResult:
        """Every distribution from the whole batch, with a loss of its own."""
        observed = ctx.observe(batch.images, batch.labels, statistics=self.statistics)
        # All are crafted before anything is learnt: crafting puts statistics back, which a waiting graph would notice.
        images = {d.name: self._move(ctx, d, batch, observed) for d in self.distributions}
        clean = ctx.encode(batch.images, batch.labels, numbers=batch.numbers)
        terms, logs = {f"loss/{CLEAN}": ctx.criterion(clean)}, {}
        for name, moved_images in images.items():
            moved = ctx.encode(moved_images, batch.labels, self._set(name), numbers=batch.numbers)
            terms[f"loss/{name}"] = ctx.criterion(moved, stage=f"loss-{name}")
            logs[f"shift/{name}"] = shift(moved, clean.z)
        return StepResult(loss=torch.stack(list(terms.values())).sum(), encoded=clean, terms=terms, logs=logs)

    def _released(self, ctx: StepContext, batch: Batch) -> StepResult:
        """Every distribution from its part of the batch, and one loss over all.

        An image and what became of it are positives there, so image numbers stay out.
        """
        count, among = len(batch.labels), len(self.distributions)
        if count < among:
            raise DataError(f"a batch of {count} has no part for each of {among} distributions")
        everyone = torch.arange(count, device=batch.labels.device)
        parts = [everyone[k * count // among : (k + 1) * count // among] for k in range(among)]
        moves = list(zip(self.distributions, parts, strict=True))
        images = [self._move_among(ctx, distribution, batch, rows) for distribution, rows in moves]
        clean = ctx.encode(batch.images, batch.labels)
        encoded, logs = [clean], {}
        for (distribution, rows), moved_images in zip(moves, images, strict=True):
            moved = ctx.encode(moved_images, batch.labels[rows], self._set(distribution.name))
            encoded.append(moved)
            logs[f"shift/{distribution.name}"] = shift(moved, clean.z[rows])
        return StepResult(loss=ctx.criterion(_joined(encoded)), encoded=clean, logs=logs)

    def _move(self, ctx: StepContext, distribution: Distribution, batch: Batch, clean: Encoded) -> Tensor:
        """The images of a batch, moved towards a distribution's goal through its set."""
        name, goal, budget = distribution.name, distribution.goal, distribution.budget
        place = self._set(name)
        try:
            return adversaries(ctx, batch, clean, goal, budget, self.statistics, distribution=name, place=place)
        except DataError as error:
            raise DataError(f"distribution '{name}', with one batch to draw targets from: {error}") from error

    def _move_among(self, ctx: StepContext, distribution: Distribution, batch: Batch, rows: Tensor) -> Tensor:
        """Some images of a batch, each moved through a distribution's set towards any of the same, as released."""
        name, place = distribution.name, self._set(distribution.name)
        images = batch.pick(ctx.mine(rows))
        seen = ctx.observe(images, batch.labels[rows], place, self.statistics)
        times = distribution.goal.targets if isinstance(distribution.goal, MultiTarget) else 1
        targets = permutations(times, len(rows), ctx.generator(f"targets-{name}")).T
        references = References(seen.z, normalize=False)  # as the model gives them, like the moved ones
        bound = BoundTargets(references, targets, torch.ones_like(targets, dtype=torch.bool))
        return ctx.attack(images, bound, distribution.budget, place, self.statistics, stage=f"start-{name}")

    def caption(self, line: Mapping[str, float]) -> str:
        """What each distribution costs; with one joint loss, how far each was moved."""
        names = [distribution.name for distribution in self.distributions]
        if self.variant == "released":
            return "shift " + "  ".join(f"{name} {line[f'shift/{name}']:.2f}" for name in names)
        return "  ".join(f"{name} {line[f'loss/{name}']:.2f}" for name in (CLEAN, *names))

    def _set(self, name: str) -> str:
        return name if self.separate else CLEAN


def permutations(times: int, count: int, generator: Generator) -> Tensor:
    """Numbers below `count`, each once a row, in random orders; on the generator's device."""
    return torch.rand(times, count, generator=generator, device=generator.device).argsort(1)


def _joined(parts: list[Encoded]) -> Encoded:
    """Parts of one batch that went through different sets, as one."""
    return Encoded(*(torch.cat(tensors) for tensors in zip(*(part[:3] for part in parts), strict=True)))
