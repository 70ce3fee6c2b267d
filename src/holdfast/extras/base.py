"""The contract of an extra, and a regime with extras around it."""

from __future__ import annotations

import dataclasses
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import ClassVar, TypeAlias

from torch import Tensor

from holdfast.configurable import Configurable
from holdfast.errors import RecipeError, TrainingError
from holdfast.losses import Encoded
from holdfast.models import Embedder
from holdfast.models.bank import SetStart
from holdfast.regimes import Adversarial, Batch, Regime, Standard, StepContext, StepResult
from holdfast.regimes.base import require_not_negative
from holdfast.registry import Registry

START = "start:"
"""In an extra's settings, the model of the run that came first (`start` of a recipe)."""

Inner: TypeAlias = Callable[[Batch], StepResult]
"""A step of the regime on a batch, with the extras that come before."""


class Extra(Configurable, ABC):
    """Changes the step of any regime: what it learns from, with what loss, at what strength, at which weights."""

    in_words: ClassVar[str]
    """What it adds, for reports: `with clean images in the loss`."""

    passes: int = 0
    """How many passes it adds to a step, at most."""

    repeats: ClassVar[bool] = False
    """Whether it computes the loss of a batch more than once, as `ctx.repeat` does: not for a loss with a memory."""

    differentiates: ClassVar[bool] = False
    """Whether it differentiates gradients of the loss, which must be `exact` and differentiable `twice` then."""

    @abstractmethod
    def step(self, ctx: StepContext, batch: Batch, inner: Inner) -> StepResult:
        """The step `inner(batch)`, changed."""

    def sets(self) -> tuple[SetStart, ...]:
        """The auxiliary BatchNorm sets it needs."""
        return ()

    def phase(self, step: int, total: int) -> int | None:
        """Which of its forms it has at a step, as for a regime."""
        return 0

    def check(self, regime: Regime) -> None:
        """Refuse a regime that it cannot be added to."""
        if isinstance(regime, Standard):
            raise RecipeError(f"extras: {type(self).__name__} is for adversarial images; use regime: at, hm or another")

    def prepare(self, model: Embedder) -> None:  # most have nothing to prepare
        """Before the first step, given the model on its device."""

    def state(self) -> dict[str, float]:
        """Numbers that a resumed run must find again, by names that no regime has."""
        return {}


class Term(Extra):
    """An extra that adds a term to the loss; the log has it as `extra/NAME`, its weight included.

    Args:
        weight: λ, the term's factor.
    """

    name: ClassVar[str]

    def __init__(self, weight: float) -> None:
        require_not_negative(f"extras: weight of {self.name}", weight)
        self.weight = weight

    @abstractmethod
    def term(self, ctx: StepContext, batch: Batch, result: StepResult) -> Tensor:
        """The term, before its weight."""

    def step(self, ctx: StepContext, batch: Batch, inner: Inner) -> StepResult:
        """With the term in the loss."""
        result = self.embedded(ctx, batch, inner(batch))
        return result.plus(f"extra/{self.name}", self.weight * self.term(ctx, batch, result))

    def embedded(self, ctx: StepContext, batch: Batch, result: StepResult) -> StepResult:
        """What the term needs to be embedded beside what the regime learnt from."""
        return result


class CleanTerm(Term):
    """A term that needs the clean batch to be embedded and learnt from: a pass more, unless the regime does so."""

    passes = 1

    def embedded(self, ctx: StepContext, batch: Batch, result: StepResult) -> StepResult:
        """With the clean batch."""
        if result.clean is not None:
            return result
        return dataclasses.replace(result, clean=ctx.encode(batch.images, batch.labels, numbers=batch.numbers))


def adversarial_of(result: StepResult) -> Adversarial:
    """The adversarial images of a step."""
    if result.adversarial is None:
        raise RecipeError("extras: this regime does not say what it attacked; have it return StepResult(adversarial=)")
    return result.adversarial


def clean_of(result: StepResult) -> Encoded:
    """The clean images of a step in which a `CleanTerm` had them embedded."""
    assert result.clean is not None
    return result.clean


class Extended(Regime):
    """A regime with extras around it, the first innermost.

    Args:
        regime: what is extended.
        extras: what is added.
    """

    def __init__(self, regime: Regime, extras: Sequence[Extra]) -> None:
        for extra in extras:
            extra.check(regime)
        kinds = [type(extra).__name__ for extra in extras]
        if twice := [kind for kind in kinds if kinds.count(kind) > 1]:
            raise RecipeError(f"extras: {twice[0]} is there twice; leave one out")
        self.regime, self.extras = regime, list(extras)
        self.replays, self.least_classes = regime.replays, regime.least_classes
        self.unit_vectors = regime.unit_vectors  # type: ignore[misc]
        self.advice = regime.advice  # type: ignore[misc]
        words = regime.in_words or f"with the regime {type(regime).__name__}"
        self.in_words = ", ".join((words, *(extra.in_words for extra in extras)))  # type: ignore[misc]

    @property
    def passes(self) -> int:
        """Those of the regime and of every extra."""
        return self.regime.passes + self.replays * sum(extra.passes for extra in self.extras)

    def phase(self, step: int, total: int) -> int | None:
        """None as long as an extra changes; they have no other forms."""
        phases = [self.regime.phase(step, total), *(extra.phase(step, total) for extra in self.extras)]
        return None if None in phases else hash(tuple(phases))

    def sets(self) -> tuple[SetStart, ...]:
        """Those of the regime and of every extra."""
        return self.regime.sets() + tuple(start for extra in self.extras for start in extra.sets())

    def rows(self, images: int) -> int:
        """Those of the regime: extras hand over no more at once."""
        return self.regime.rows(images)

    def step(self, ctx: StepContext, batch: Batch) -> StepResult:
        """The regime's step, changed by every extra."""
        inner: Inner = partial(self.regime.step, ctx)
        for extra in self.extras:
            inner = partial(extra.step, ctx, inner=inner)
        return inner(batch)

    def caption(self, line: Mapping[str, float]) -> str:
        """The regime's words, and every term."""
        terms = [f"{e.name} {line[f'extra/{e.name}']:.3f}" for e in self.extras if isinstance(e, Term)]
        return "  ".join((self.regime.caption(line), *terms)).strip()

    def state(self) -> dict[str, float]:
        """The regime's, and what extras must find again."""
        return self.regime.state() | self._own()

    def restore(self, state: dict[str, float]) -> None:
        """Take back what `state` gave; refuse to go on with extras that are others now."""
        own = self._own()
        if changed := [name for name, value in own.items() if state.get(name) != value]:
            raise TrainingError(
                f"the {changed[0]} is not the one that this run began with; put that back, or give another --out"
            )
        self.regime.restore({name: value for name, value in state.items() if name not in own})

    def _own(self) -> dict[str, float]:
        return {name: value for extra in self.extras for name, value in extra.state().items()}


def extended(regime: Regime, extras: Sequence[Extra]) -> Regime:
    """A regime with extras; itself where there are none."""
    return Extended(regime, extras) if extras else regime


def prepare(regime: Regime, model: Embedder) -> None:
    """Let the extras of a regime, if it has any, prepare for a model that is on its device."""
    for extra in regime.extras if isinstance(regime, Extended) else ():
        extra.prepare(model)


registry: Registry[Extra] = Registry("extra", Extra, "holdfast.extras")
register = registry.register
