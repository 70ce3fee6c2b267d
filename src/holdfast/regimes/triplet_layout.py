"""Triplets laid out as images of their own, so that each image of a triplet can be attacked by itself."""

from __future__ import annotations

import torch
from torch import Generator, Tensor

from holdfast.configurable import built
from holdfast.errors import DataError, RecipeError
from holdfast.losses import Encoded
from holdfast.mining import Miner, Triplets
from holdfast.processes import Blocks
from holdfast.regimes.context import StepContext
from holdfast.sphere import pairwise_distance


def triplet_miner(miner: Miner | str, key: str = "regime.source") -> Miner:
    """A miner of triplets, given as one or by name; `key` is where the recipe has it."""
    found = built(Miner, miner)
    if not found.triplets:
        raise RecipeError(f"{key}: {type(found).__name__} mines pairs, and this regime needs triplets; use softhard")
    return found


def mine_triplets(miner: Miner, encoded: Encoded, generator: Generator) -> Triplets:
    """The triplets that a miner finds in a batch."""
    found = miner(encoded.z, encoded.labels, generator, encoded.numbers)
    if not isinstance(found, Triplets):
        raise RecipeError(f"{type(miner).__name__} says that it mines triplets, and mined pairs; set triplets = False")
    if len(found.anchor) == 0:
        raise DataError("no triplet can be formed in this batch; it needs two classes with two images each")
    return found


def flat_rows(triplets: Triplets) -> Tensor:
    """Row numbers of all images, triplet by triplet: anchor, positive, negative, anchor, ..."""
    return torch.stack(triplets, 1).flatten()


def flat_blocks(triplets: Triplets) -> Blocks:
    """What a pass over `flat_rows` consists of: triplets that stay together."""
    return ((3 * len(triplets.anchor), 3),)


def flat_triplets(count: int, device: torch.device) -> Triplets:
    """The same triplets as rows of what `flat_rows` laid out."""
    first = torch.arange(count, device=device) * 3
    return Triplets(first, first + 1, first + 2)


def hardness(z: Tensor, triplets: Triplets) -> Tensor:
    """`d(a, p) - d(a, n)` of each triplet."""
    anchor = z[triplets.anchor]
    return pairwise_distance(anchor, z[triplets.positive]) - pairwise_distance(anchor, z[triplets.negative])


def loss_on_triplets(ctx: StepContext, encoded: Encoded, triplets: Triplets) -> Tensor:
    """The recipe's loss on exactly these triplets; a loss that does not learn from triplets takes the labels."""
    return ctx.criterion(encoded, triplets if ctx.on_triplets else None)
