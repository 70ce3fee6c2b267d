"""The contract of a regime: one batch to one loss, with what training lends it.

The step context is a protocol: `training` provides it, regimes only use it. BatchNorm routing, precision and gathering
across processes live behind `encode` and nowhere else.
"""

from __future__ import annotations

import dataclasses
from abc import ABC, abstractmethod
from typing import Protocol

from torch import Generator, Tensor

from holdfast.losses.criterion import Encoded
from holdfast.mining.tuples import Tuples
from holdfast.registry import Registry


@dataclasses.dataclass(frozen=True)
class Batch:
    """Augmented images in [0, 1] with their class numbers."""

    images: Tensor
    labels: Tensor


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


class StepContext(Protocol):
    """What a regime works with during one step."""

    def encode(self, images: Tensor, labels: Tensor, distribution: str = "clean") -> Encoded:
        """Embed images through the BatchNorm set of a distribution."""

    def criterion(self, encoded: Encoded, tuples: Tuples | None = None) -> Tensor:
        """The recipe's loss on embeddings; its miner draws from the stage `loss`."""

    def generator(self, stage: str) -> Generator:
        """A generator seeded from (seed, step, stage)."""


class Regime(ABC):
    """Turns a batch into a loss."""

    @abstractmethod
    def step(self, ctx: StepContext, batch: Batch) -> StepResult:
        """The loss of one batch, with its graph."""

    def state(self) -> dict[str, float]:
        """Numbers that must survive a restart; a regime without memory has none."""
        return {}

    def restore(self, state: dict[str, float]) -> None:
        """Take back what `state` gave."""
        if state:
            raise ValueError(f"{type(self).__name__} keeps no state, but the checkpoint holds {sorted(state)}")


registry: Registry[Regime] = Registry("regime", Regime, "holdfast.regimes")
register = registry.register
