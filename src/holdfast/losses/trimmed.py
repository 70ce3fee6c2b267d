"""Learning only from the easiest tuples."""

from __future__ import annotations

import torch
from torch import Generator, Tensor

from holdfast.configurable import built
from holdfast.errors import RecipeError
from holdfast.losses.base import Encoded, Loss, register
from holdfast.losses.triplet import Triplet
from holdfast.losses.tuples import TupleLoss
from holdfast.losses.unreduced import AveragedLoss, Unreduced
from holdfast.mining import IndicesTuple, Random


@register("trimmed")
class Trimmed(Loss):
    """Another loss on the fraction of its tuples that have the lowest loss now; the rest are taken for noise.

    Trimmed are the single losses of the inner loss: triplets where it learns from triplets, positive pairs or anchors
    in pair losses, images or classes in class-parameter losses (each docstring says which). A loss with two averages
    (positive and negative pairs of `contrastive`) is trimmed in each. Averages over active tuples are taken afterwards.

    Args:
        loss: the inner loss; `triplet` with the miner `random` when left out. A triplet loss must have a miner that
            returns triplets, or be called with triplets: all triplets of a batch are never listed.
        keep: the fraction kept.

    Requirements: those of the inner loss.
    Relations: the miner `easy-positive` selects among positives only, which the EPS paper finds to matter.
    Reference: Shen and Sanghavi, ICML 2019; EPS, section 5.2.5.
    """

    def __init__(self, loss: Loss | str | None = None, keep: float = 0.9) -> None:
        inner = Triplet(miner=Random()) if loss is None else built(Loss, loss)
        if not isinstance(inner, AveragedLoss):
            raise RecipeError(f"{type(inner).__name__} has no single losses that could be trimmed; use another loss")
        if not 0 < keep <= 1:
            raise RecipeError(f"keep must be above 0 and at most 1, got {keep}")
        super().__init__(inner.miner)
        self.loss = inner
        self.keep = keep

    @property
    def on_triplets(self) -> bool:
        """As the inner loss."""
        return self.loss.on_triplets

    def forward(
        self, embeddings: Tensor, labels: Tensor, tuples: IndicesTuple | None = None, generator: Generator | None = None
    ) -> Tensor:
        """The inner loss on what is kept."""
        return self._kept(self.loss.unreduced(embeddings, labels, tuples, generator))

    def batch_loss(
        self, encoded: Encoded, tuples: IndicesTuple | None, generator: Generator | None, step: int
    ) -> Tensor:
        """The same where image numbers are known."""
        if not isinstance(self.loss, TupleLoss):
            return super().batch_loss(encoded, tuples, generator, step)
        compared = self.loss.compare(encoded.z, encoded.labels, tuples, generator, encoded.numbers)
        return self._kept(self.loss.single(compared))

    def _kept(self, losses: list[Unreduced]) -> Tensor:
        return torch.stack([group.lowest(self.keep).mean() for group in losses]).sum()
