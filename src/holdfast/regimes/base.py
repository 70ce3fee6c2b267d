"""The contract of a regime, and what several regimes start from: budgets of the papers, checks of arguments."""

from __future__ import annotations

import dataclasses
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import ClassVar, NamedTuple

import torch
from torch import Tensor

from holdfast.attacks import Budget
from holdfast.configurable import Configurable
from holdfast.errors import RecipeError
from holdfast.losses import Encoded
from holdfast.mining import BatchFacts
from holdfast.models.bank import SetStart
from holdfast.processes import current_processes
from holdfast.regimes.context import StepContext as StepContext
from holdfast.registry import Registry

EIGHT_STEPS = Budget(eps=8 / 255, step=1 / 255, steps=8)
"""Of the HM paper, for EST, ACT and HM alike."""

ONE_STEP = Budget(eps=0.01, steps=1, start="uniform", start_radius=0.0005, units="normalized")
"""Of the released MDProp code: one step of ε, from within ±0.0005."""


@dataclasses.dataclass(frozen=True)
class Batch:
    """Augmented images in [0, 1] with their class numbers.

    Args:
        images: of this process's shard of the batch.
        labels: of the whole batch.
        make: the images of any rows of the whole batch; left out where `images` has them all.
        numbers: which image of the dataset each row of the whole batch shows, by which miners know copies; left out,
            every row shows another one.
        known: what the host knows of its labels, or of those of each of its `parts`.
    """

    images: Tensor
    labels: Tensor
    make: Callable[[Tensor], Tensor] | None = None
    numbers: Tensor | None = None
    known: BatchFacts | None = None

    def pick(self, rows: Tensor) -> Tensor:
        """The images of any rows of the whole batch."""
        return self.images[rows] if self.make is None else self.make(rows)

    def numbers_of(self, rows: Tensor) -> Tensor | None:
        """Which images any rows of the whole batch show."""
        return None if self.numbers is None else self.numbers[rows]

    def parts(self, count: int) -> list[Batch]:
        """Equal consecutive parts, each sharded over the processes."""
        everyone = torch.arange(len(self.labels), device=self.labels.device)
        return [self._part(rows) for rows in everyone.chunk(count)] if count > 1 else [self]

    def _part(self, rows: Tensor) -> Batch:
        mine = rows[current_processes().shard(len(rows))]
        numbers = self.numbers_of(rows)
        return Batch(
            self.pick(mine), self.labels[rows], lambda positions: self.pick(rows[positions]), numbers, self.known
        )


class Adversarial(NamedTuple):
    """What a step learnt from adversarial images.

    Args:
        encoded: their embeddings, with a graph.
        rows: the row of the batch that each was made from.
    """

    encoded: Encoded
    rows: Tensor

    @classmethod
    def of_batch(cls, *encoded: Encoded) -> Adversarial:
        """Every image of the batch in its order, attacked once or in several ways."""
        rows = torch.arange(len(encoded[0].labels), device=encoded[0].labels.device)
        return cls(encoded[0] if len(encoded) == 1 else joined(encoded), rows.repeat(len(encoded)))


@dataclasses.dataclass(frozen=True)
class StepResult:
    """The loss of one step.

    Args:
        loss: the scalar that is minimised.
        terms: its parts by name, for the log.
        logs: other scalars worth following.
        encoded: the embeddings the loss was computed on; training watches them for collapse.
        adversarial: the adversarial images among them, for extras; None where nothing is attacked.
        clean: the clean batch, where the step has embedded it to learn.
    """

    loss: Tensor
    encoded: Encoded
    terms: dict[str, Tensor] = dataclasses.field(default_factory=dict)
    logs: dict[str, Tensor] = dataclasses.field(default_factory=dict)
    adversarial: Adversarial | None = None
    clean: Encoded | None = None

    def plus(self, name: str, term: Tensor) -> StepResult:
        """With one term more in the loss; a loss that was one so far is logged as `regime`."""
        terms = {**(self.terms or {"regime": self.loss}), name: term}
        return dataclasses.replace(self, loss=self.loss + term, terms=terms)

    def detached(self) -> StepResult:
        """The same without a graph, which would keep the memory of its step."""
        z, pooled, labels, numbers = self.encoded
        return StepResult(
            loss=self.loss.detach(),
            encoded=Encoded(z.detach(), pooled.detach(), labels, numbers),
            terms={name: value.detach() for name, value in self.terms.items()},
            logs={name: value.detach() for name, value in self.logs.items()},
        )

    @staticmethod
    def mean(results: Sequence[StepResult]) -> StepResult:
        """The mean over several parts of a batch; the embeddings are those of the last."""

        def average(values: Sequence[Tensor]) -> Tensor:
            return torch.stack([value.detach() for value in values]).mean()

        return StepResult(
            loss=average([result.loss for result in results]),
            encoded=results[-1].encoded,
            terms={name: average([result.terms[name] for result in results]) for name in results[0].terms},
            logs={name: average([result.logs[name] for result in results]) for name in results[0].logs},
        )


class Regime(Configurable, ABC):
    """Turns a batch into a loss."""

    replays: int = 1
    """Updates per batch."""

    unit_vectors: ClassVar[bool] = False
    """Whether its formulas assume embeddings of unit length."""

    least_classes: int = 2
    """How many classes a batch, or a mining group of one, must have."""

    in_words: ClassVar[str] = ""
    """What training with it is, for reports: `learning from clean images only`; the regime's name when left out."""

    advice: ClassVar[str] = "try a softer miner (semihard), a lower optimizer.lr or another loss"
    """What to do when an embedding collapses."""

    @property
    def passes(self) -> int:
        """How often a step runs the model forward and back, if nothing stops early."""
        return self.replays

    def phase(self, step: int, total: int) -> int | None:
        """Which of its forms it has at a step, as a captured step has one; None while the form changes all the time."""
        return 0

    def sets(self) -> tuple[SetStart, ...]:
        """The auxiliary BatchNorm sets it needs."""
        return ()

    def rows(self, images: int) -> int:
        """How many embeddings the loss is given at once, at most, where a batch has so many images."""
        return images

    @abstractmethod
    def step(self, ctx: StepContext, batch: Batch) -> StepResult:
        """The loss of one batch, with its graph."""

    def caption(self, line: Mapping[str, float]) -> str:
        """A few words for the progress bar about the latest line of the log; nothing where the loss says it all."""
        return ""

    def state(self) -> dict[str, float]:
        """Numbers that must survive a restart; a regime without memory has none."""
        return {}

    def restore(self, state: dict[str, float]) -> None:
        """Take back what `state` gave."""
        refuse_state(self, state)


def joined(parts: Sequence[Encoded]) -> Encoded:
    """Parts of one batch that went through different sets, as one without image numbers."""
    return Encoded(*(torch.cat(tensors) for tensors in zip(*(part[:3] for part in parts), strict=True)))


def refuse_state(keeper: object, state: Mapping[str, float]) -> None:
    """Refuse numbers of a checkpoint where nothing is kept."""
    if state:
        raise ValueError(f"{type(keeper).__name__} keeps no state, but the checkpoint holds {sorted(state)}")


def require_positive(key: str, value: float) -> None:
    """Refuse what is not a number above zero; `key` is where the recipe has it."""
    if not (math.isfinite(value) and value > 0):
        raise RecipeError(f"{key} must be a number above 0, got {value}")


def require_not_negative(key: str, value: float) -> None:
    """Refuse what is not a number of zero or more; `key` is where the recipe has it."""
    if not (math.isfinite(value) and value >= 0):
        raise RecipeError(f"{key} must be a number of 0 or more, got {value}")


registry: Registry[Regime] = Registry("regime", Regime, "holdfast.regimes")
register = registry.register
