"""The pairs of the multi-similarity loss."""

from __future__ import annotations

import torch
from torch import Generator, Tensor

from holdfast.mining.base import Miner, register
from holdfast.mining.batch import MiningBatch
from holdfast.mining.known import in_training
from holdfast.mining.tuples import Pairs, Recalled
from holdfast.sphere import Mask


@register("multi-similarity")
class MultiSimilarityMiner(Miner):
    """Pairs that are informative for their anchor: hard compared with the other kind.

    Positives with `s - ε < max_n s` and negatives with `s + ε > min_p s`. An anchor without a positive has no
    informative negative, and the other way round.

    Args:
        epsilon: tolerance ε.

    Requirements: unit vectors; two or more images per class and two or more classes in a batch.
    Relations: made for the loss `multi-similarity`; `easy-positive` with this miner as `negative` has the nearest
        positive as the only one, and judges everything against it.
    Reference: Wang et al., CVPR 2019.
    """

    triplets = False

    def __init__(self, epsilon: float = 0.1) -> None:
        self.epsilon = epsilon

    def __call__(
        self,
        embeddings: Tensor,
        labels: Tensor,
        generator: Generator | None = None,
        images: Tensor | None = None,
        recalled: Recalled | None = None,
    ) -> Pairs:
        """Mine a batch; nothing is drawn at random."""
        return self.pairs(MiningBatch(embeddings, labels, images, recalled))

    def masks(self, batch: MiningBatch) -> tuple[Mask, Mask]:
        """The informative ones of the positive and negative pairs."""
        if not in_training():  # a recipe sees to it that its batches have two classes
            batch.require_classes()
        s = batch.similarity
        hardest_negative = s.masked_fill(~batch.negative, -torch.inf).amax(1, keepdim=True)
        hard_positive = batch.positive & (s < hardest_negative + self.epsilon)
        return hard_positive, self.hard_negatives(s, batch.positive, batch.negative)

    def hard_negatives(self, s: Tensor, positive: Mask, negative: Mask) -> Mask:
        """Negatives nearly as similar as the least similar positive."""
        hardest_positive = s.masked_fill(~positive, torch.inf).amin(1, keepdim=True)
        return negative & (s > hardest_positive - self.epsilon)
