"""Triplets laid out as images of their own, so that each image of a triplet can be attacked by itself."""

from __future__ import annotations

import dataclasses
import functools

import torch
from torch import Generator, Tensor

from holdfast.configurable import built
from holdfast.errors import DataError, RecipeError
from holdfast.losses import Encoded
from holdfast.mining import Miner, Triplets
from holdfast.models.bank import CLEAN
from holdfast.regimes.base import Batch, StepContext
from holdfast.sphere import pairwise_distance


@dataclasses.dataclass(frozen=True)
class TripletLayout:
    """Copies of the images of some triplets, one after another: anchor, positive, negative, anchor, ...

    Args:
        triplets: rows of the batch.
    """

    triplets: Triplets

    @functools.cached_property
    def rows(self) -> Tensor:
        """Rows of the batch, image by image."""
        return torch.stack(self.triplets, 1).flatten()

    @functools.cached_property
    def flat(self) -> Triplets:
        """The same triplets as rows of the layout."""
        first = torch.arange(len(self.triplets.anchor), device=self.rows.device) * 3
        return Triplets(first, first + 1, first + 2)

    def images(self, ctx: StepContext, batch: Batch) -> Tensor:
        """This process's shard of the clean images."""
        return batch.pick(ctx.mine(self.rows, 3))

    def encode(self, ctx: StepContext, batch: Batch, images: Tensor, distribution: str = CLEAN) -> Encoded:
        """Embed what became of the images, to learn from them."""
        blocks = ((len(self.rows), 3),)
        return ctx.encode(images, batch.labels[self.rows], distribution, blocks, batch.numbers_of(self.rows))

    def loss(self, ctx: StepContext, encoded: Encoded) -> Tensor:
        """The recipe's loss on exactly these triplets; a loss that does not learn from triplets takes the labels."""
        return ctx.criterion(encoded, self.flat if ctx.on_triplets else None)


def triplet_miner(miner: Miner | str, key: str = "regime.source") -> Miner:
    """A miner of triplets, given as one or by name; `key` is where the recipe has it."""
    found = built(Miner, miner)
    if not found.triplets:
        raise RecipeError(f"{key}: {type(found).__name__} mines pairs, and this regime needs triplets; use softhard")
    return found


def triplet_rows(miner: Miner, images: int) -> int:
    """How many rows the triplets of so many images are laid out in: three for each anchor, or for each first of two."""
    anchors = -(-images // 2) if getattr(miner, "anchors", "each") == "first" else images
    return 3 * anchors


def mine_triplets(miner: Miner, encoded: Encoded, generator: Generator) -> Triplets:
    """The triplets that a miner finds in a batch."""
    found = miner(encoded.z, encoded.labels, generator, encoded.numbers)
    if not isinstance(found, Triplets):
        raise RecipeError(f"{type(miner).__name__} says that it mines triplets, and mined pairs; set triplets = False")
    if len(found.anchor) == 0:
        raise DataError("no triplet can be formed in this batch; it needs two classes with two images each")
    return found


def hardness(z: Tensor, triplets: Triplets) -> Tensor:
    """`d(a, p) - d(a, n)` of each triplet."""
    anchor = z[triplets.anchor]
    return pairwise_distance(anchor, z[triplets.positive]) - pairwise_distance(anchor, z[triplets.negative])
