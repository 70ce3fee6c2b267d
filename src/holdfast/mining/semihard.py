"""Semi-hard and soft-hard triplets."""

from __future__ import annotations

import copy
from typing import Literal

import torch
from torch import Generator, Tensor

from holdfast.errors import RecipeError
from holdfast.mining.base import register
from holdfast.mining.batch import MiningBatch
from holdfast.mining.draw import prefer, uniform
from holdfast.mining.triplet import Anchors, TripletMiner, Variant
from holdfast.sphere import Mask


@register("semihard")
class SemiHard(TripletMiner):
    """Negatives a little farther than the positive, within the margin.

    The negative is uniform among `d_ap < d_an < d_ap + margin`, or among all negatives where that band is empty.

    Args:
        margin: width of the band.
        positives: `uniform` in the class; `semihard` prefers positives whose band holds a negative, so that the
            triplet is semi-hard whenever the anchor has such a triplet at all (the baseline of easy positive
            sampling, whose paper does not spell the rule out).
        anchors: `each` image or the `first` of each consecutive pair.
        variant: `published` takes the anchor's partner as positive.

    Requirements: two or more images per class and two or more classes in a batch.
    Relations: `softhard` also accepts negatives closer than the positive; `hardest` takes the closest.
    Reference: Schroff et al., CVPR 2015.
    """

    def __init__(
        self,
        margin: float = 0.2,
        positives: Literal["uniform", "semihard"] = "uniform",
        anchors: Anchors = "each",
        variant: Variant = "default",
    ) -> None:
        super().__init__(anchors, variant)
        if positives == "semihard" and variant == "published":
            raise RecipeError("the published variant takes the partner as positive; leave out positives: semihard")
        self.margin: float | Tensor = margin
        self.positives = positives

    def narrowed(self, factor: Tensor) -> SemiHard:
        """The same miner with a band of another width.

        Args:
            factor: on the margin, a scalar on the device, which no host reads.
        """
        other = copy.copy(self)
        other.margin = self.margin * factor
        return other

    def choose_positives(self, batch: MiningBatch, generator: Generator | None) -> Tensor:
        """Uniform, the partner, or one with a semi-hard negative."""
        if self.positives == "uniform":
            return super().choose_positives(batch, generator)
        return uniform(prefer(self._with_band(batch), batch.positive), generator)

    def choose_negatives(self, batch: MiningBatch, positive: Tensor, generator: Generator | None) -> Tensor:
        """Uniform in the band above the positive's distance."""
        floor = batch.distance.gather(1, positive[:, None])
        band = batch.negative & (batch.distance > floor) & (batch.distance < floor + self.margin)
        return uniform(prefer(band, batch.negative), generator)

    def _with_band(self, batch: MiningBatch) -> Mask:
        """Positive pairs with a negative in their band: the next farther negative decides."""
        ordered = batch.distance.masked_fill(~batch.negative, torch.inf).sort(1).values
        following = torch.searchsorted(ordered, batch.distance, right=True).clamp_max(ordered.shape[1] - 1)
        candidate = ordered.gather(1, following)
        inside = (candidate > batch.distance) & (candidate < batch.distance + self.margin)
        return batch.positive & inside


@register("softhard")
class SoftHard(TripletMiner):
    """Positives beyond the nearest negative, negatives within the farthest positive.

    The positive is uniform among `d_ap > min_n d_an`, the negative uniform among `d_an < max_p d_ap`; where none
    qualifies, any positive or negative. The two are drawn independently.

    Args:
        anchors: `each` image or the `first` of each consecutive pair.
        variant: in the `published` one an anchor without a qualifying positive may be drawn as its own.

    Requirements: two or more images per class and two or more classes in a batch.
    Relations: softer than `hardest`, harder than `semihard`.
    Reference: Roth et al., ICML 2020.
    """

    @property
    def needs_pairs(self) -> bool:
        """The published rule draws positives from the whole class, so only `first` relies on pairs."""
        return self.anchors == "first"

    def choose_positives(self, batch: MiningBatch, generator: Generator | None) -> Tensor:
        """Uniform among the hard positives."""
        closest = batch.distance.masked_fill(~batch.negative, torch.inf).amin(1, keepdim=True)
        own_class = batch.positive
        if self.variant == "published":
            own_class = own_class.scatter(1, batch.own[:, None], True)
        return uniform(prefer(batch.positive & (batch.distance > closest), own_class), generator)

    def choose_negatives(self, batch: MiningBatch, positive: Tensor, generator: Generator | None) -> Tensor:
        """Uniform among the hard negatives."""
        farthest = batch.distance.masked_fill(~batch.positive, -torch.inf).amax(1, keepdim=True)
        return uniform(prefer(batch.negative & (batch.distance < farthest), batch.negative), generator)
