"""Several distributions of inputs, each with a BatchNorm set of its own (MDProp)."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Mapping
from typing import Any, Literal, TypeAlias

import torch
from torch import Generator, Tensor

from holdfast.attacks import BoundTargets, Budget, Goal, MultiTarget, References, SingleTarget
from holdfast.attacks.frozen import Statistics
from holdfast.config import instantiate
from holdfast.errors import DataError, ModelError, RecipeError
from holdfast.losses import Encoded
from holdfast.mining.draw import sample
from holdfast.models.bank import CLEAN, SetStart, check_name
from holdfast.regimes.adversaries import adversarial_images, image_goal, shift
from holdfast.regimes.base import (
    ONE_STEP,
    Adversarial,
    Batch,
    Regime,
    StepContext,
    StepResult,
    joined,
    register,
    require_not_negative,
)

Variant: TypeAlias = Literal["paper", "released"]

DISTRIBUTIONS: Any = (
    {"name": "stax", "goal": "single-target"},
    {"name": "mtax", "goal": {"name": "multi-target", "targets": 5}},
)
"""As a recipe writes them: MDProp with two extra sets."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Distribution:
    """Inputs made from the clean ones, and the BatchNorm set they go through.

    Args:
        name: of its set, and in the log.
        goal: of the attack; any goal for single images, or for the batch as a whole.
        budget: of the attack.
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
        image_goal(self.goal)
        require_not_negative(f"distribution '{self.name}': noise", self.noise)


@register("mdprop")
class MDProp(Regime):
    """Learn from clean and several kinds of adversarial images, a BatchNorm set each; 1 + Σ_k (η_k + 1) passes a step.

    Σ_k L(x^k), x¹ = x clean, x^k = x attacked towards goal k in η_k steps

    The clean set is the model: what is learnt about the other distributions reaches it through all other weights.
    `paper`: targets are the clean batch seen through the clean set, x^k is crafted and learnt through set k, and each
    distribution has a loss of its own. `released` differs, as the authors' code does, in five ways: the batch is cut
    into as many consecutive parts as there are distributions and only part k is attacked for set k; targets are that
    part, seen through set k; they are drawn without looking at labels, as T permutations of the part, so that a target
    may be of the own class, drawn twice, or the image itself; one joint loss is taken over the clean batch and all
    attacked parts; and the running statistics of the auxiliary sets start from scratch. The authors train in parallel
    on three devices, each with parts of its own third of a batch, and hold pixels between the least and the greatest of
    a part; here a batch is one, and pixels stay in [0, 1].

    The log has each loss as `loss/NAME` (`released` has only the joint one) and, as `shift/NAME`, the mean distance
    between adversarial images and the same clean ones, each seen through its own set.

    Args:
        distributions: beside the clean one; by default single-target and five-target adversaries.
        variant: of the paper, or of its released code.
        separate: False sends everything through the clean set.
        statistics: of BatchNorm while observing and crafting: running ones (`eval`), or as in training (`keep`).

    Requirements: BatchNorm layers, unless they are shared; what the goals require of a batch: multi-target needs more
        classes in it than targets; `released` an image for each distribution.
    Relations: `advprop-d` has one extra set; `at` learns from adversarial images alone; with `separate: false` and one
        distribution it is `adml` with a weight of 1.
    Reference: MDProp, Algorithm 1; `released`: github.com/intherejeet/MDProp.
    """

    in_words = "learning from clean and adversarial images, each kind with a BatchNorm set of its own"

    advice = (
        "lower eps or steps in the budgets of regime.distributions, start from a trained model (init), "
        "or use another loss"
    )

    def __init__(
        self,
        distributions: list[Distribution] = DISTRIBUTIONS,
        variant: Variant = "paper",
        separate: bool = True,
        statistics: Statistics = "eval",
    ) -> None:
        distributions = instantiate(list[Distribution], list(distributions), "regime.distributions")
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
        self.distributions = distributions
        self.variant = variant
        self.separate = separate
        self.statistics = statistics
        if variant == "paper":  # `released` does not look at classes
            self.least_classes = max(distribution.goal.least_classes for distribution in distributions)

    @property
    def passes(self) -> int:
        """One for the clean images; for each distribution, those of its crafting and one."""
        return 1 + sum(distribution.budget.steps + 1 for distribution in self.distributions)

    def sets(self) -> tuple[SetStart, ...]:
        """One per distribution; none where all share the clean one."""
        fresh = self.variant == "released"
        return tuple(SetStart(d.name, d.noise, fresh) for d in self.distributions if self.separate)

    def rows(self, images: int) -> int:
        """`released` has one loss of clean and attacked images."""
        return images if self.variant == "paper" else 2 * images

    def step(self, ctx: StepContext, batch: Batch) -> StepResult:
        """Observe, attack, learn."""
        return self._paper(ctx, batch) if self.variant == "paper" else self._released(ctx, batch)

    def _paper(self, ctx: StepContext, batch: Batch) -> StepResult:
        """Every distribution from the whole batch, with a loss of its own."""
        observed = ctx.observe(batch.images, batch.labels, statistics=self.statistics)
        # All are crafted before anything is learnt: crafting puts statistics back, which a waiting graph would notice.
        images = {d.name: self._attack(ctx, d, batch, observed) for d in self.distributions}
        clean = ctx.encode(batch.images, batch.labels, numbers=batch.numbers)
        terms, logs, attacked = {f"loss/{CLEAN}": ctx.criterion(clean)}, {}, []
        for name, crafted in images.items():
            adversarial = ctx.encode(crafted, batch.labels, self._set(name), numbers=batch.numbers)
            terms[f"loss/{name}"] = ctx.criterion(adversarial, stage=f"loss-{name}")
            logs[f"shift/{name}"] = shift(adversarial, clean.z)
            attacked.append(adversarial)
        loss = torch.stack(list(terms.values())).sum()
        return StepResult(loss, clean, terms, logs, Adversarial.of_batch(*attacked), clean)

    def _released(self, ctx: StepContext, batch: Batch) -> StepResult:
        """Every distribution from its part of the batch, and one loss over all.

        An image and what became of it are positives there, so image numbers stay out.
        """
        count, among = len(batch.labels), len(self.distributions)
        if count < among:
            raise DataError(f"a batch of {count} has no part for each of {among} distributions")
        everyone = torch.arange(count, device=batch.labels.device)
        parts = [everyone[k * count // among : (k + 1) * count // among] for k in range(among)]
        parted = list(zip(self.distributions, parts, strict=True))
        images = [self._attack_part(ctx, distribution, batch, rows) for distribution, rows in parted]
        clean = ctx.encode(batch.images, batch.labels)
        encoded, logs = [clean], {}
        for (distribution, rows), crafted in zip(parted, images, strict=True):
            adversarial = ctx.encode(crafted, batch.labels[rows], self._set(distribution.name))
            encoded.append(adversarial)
            logs[f"shift/{distribution.name}"] = shift(adversarial, clean.z[rows])
        attacked = Adversarial(joined(encoded[1:]), everyone)
        return StepResult(ctx.criterion(joined(encoded)), clean, {}, logs, attacked, clean)

    def _attack(self, ctx: StepContext, distribution: Distribution, batch: Batch, clean: Encoded) -> Tensor:
        """The images of a batch, attacked towards a distribution's goal through its set."""
        name, goal, budget = distribution.name, distribution.goal, distribution.budget
        place = self._set(name)
        try:
            return adversarial_images(ctx, batch, clean, goal, budget, self.statistics, distribution=name, place=place)
        except DataError as error:
            raise DataError(f"distribution '{name}', with one batch to draw targets from: {error}") from error

    def _attack_part(self, ctx: StepContext, distribution: Distribution, batch: Batch, rows: Tensor) -> Tensor:
        """Some images of a batch, each attacked through a distribution's set towards any of the same, as released."""
        name, place = distribution.name, self._set(distribution.name)
        images = batch.pick(ctx.mine(rows))
        seen = ctx.observe(images, batch.labels[rows], place, self.statistics)
        times = distribution.goal.targets if isinstance(distribution.goal, MultiTarget) else 1
        targets = permutations(times, len(rows), ctx.generator(f"targets-{name}")).T
        references = References(seen.z, normalize=False)  # as the model gives them, like the attacked ones
        bound = BoundTargets(references, targets, torch.ones_like(targets, dtype=torch.bool))
        return ctx.attack(images, bound, distribution.budget, place, self.statistics, stage=f"start-{name}")

    def caption(self, line: Mapping[str, float]) -> str:
        """The loss of each distribution; with one joint loss, how far each was shifted."""
        names = [distribution.name for distribution in self.distributions]
        if self.variant == "released":
            return "shift " + "  ".join(f"{name} {line[f'shift/{name}']:.2f}" for name in names)
        return "  ".join(f"{name} {line[f'loss/{name}']:.2f}" for name in (CLEAN, *names))

    def _set(self, name: str) -> str:
        return name if self.separate else CLEAN


def permutations(times: int, count: int, generator: Generator) -> Tensor:
    """Numbers below `count`, each once a row, in random orders; on the generator's device."""
    return sample(torch.rand, (times, count), device=generator.device, generator=generator).argsort(1)
