"""The contract of a regime: one batch to one loss, by what a step context lends it."""

from __future__ import annotations

import dataclasses
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import ClassVar

import torch
from torch import Tensor

from holdfast.losses import Encoded
from holdfast.models.bank import SetStart
from holdfast.processes import current_processes
from holdfast.regimes.context import StepContext
from holdfast.registry import Registry


@dataclasses.dataclass(frozen=True)
class Batch:
    """Augmented images in [0, 1] with their class numbers.

    Args:
        images: of this process's shard of the batch.
        labels: of the whole batch.
        make: the images of any rows of the whole batch; left out where `images` has them all.
        numbers: which image of the dataset each row of the whole batch shows, by which miners know copies; left out,
            every row shows another one.
    """

    images: Tensor
    labels: Tensor
    make: Callable[[Tensor], Tensor] | None = None
    numbers: Tensor | None = None

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
        return Batch(self.pick(mine), self.labels[rows], lambda positions: self.pick(rows[positions]), numbers)


@dataclasses.dataclass(frozen=True)
class StepResult:
    """What one step costs.

    Args:
        loss: the scalar that is minimised.
        terms: its parts by name, for the log.
        logs: other scalars worth following.
        encoded: the embeddings the loss was computed on; training watches them for collapse.
    """

    loss: Tensor
    encoded: Encoded
    terms: dict[str, Tensor] = dataclasses.field(default_factory=dict)
    logs: dict[str, Tensor] = dataclasses.field(default_factory=dict)

    @staticmethod
    def mean(results: Sequence[StepResult]) -> StepResult:
        """What several parts of a batch cost on average; the embeddings are those of the last."""
        first = results[0]

        def average(read: Callable[[StepResult], Tensor]) -> Tensor:
            return torch.stack([read(result).detach() for result in results]).mean()

        return StepResult(
            loss=average(lambda r: r.loss),
            encoded=results[-1].encoded,
            terms={name: average(lambda r, n=name: r.terms[n]) for name in first.terms},  # type: ignore[misc]
            logs={name: average(lambda r, n=name: r.logs[n]) for name in first.logs},  # type: ignore[misc]
        )


class Regime(ABC):
    """Turns a batch into a loss."""

    replays: int = 1
    """How often each batch is learnt, one update each."""

    unit_vectors: ClassVar[bool] = False
    """Whether its formulas assume embeddings of unit length."""

    least_classes: int = 2
    """How many classes a batch, or a mining group of one, must have."""

    advice: ClassVar[str] = "try a softer miner (semihard), a lower optimizer.lr or another loss"
    """What to do when an embedding collapses."""

    @property
    def passes(self) -> int:
        """How often a step runs the model forward and back, if nothing stops early."""
        return self.replays

    def sets(self) -> tuple[SetStart, ...]:
        """The auxiliary BatchNorm sets it needs."""
        return ()

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
        if state:
            raise ValueError(f"{type(self).__name__} keeps no state, but the checkpoint holds {sorted(state)}")


registry: Registry[Regime] = Registry("regime", Regime, "holdfast.regimes")
register = registry.register
