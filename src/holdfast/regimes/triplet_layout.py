"""Triplets laid out as images of their own, so that every slot of a triplet can be moved by itself."""

from __future__ import annotations

import torch
from torch import Generator, Tensor

from holdfast.errors import DataError, RecipeError
from holdfast.losses import Encoded
from holdfast.mining import Miner, Triplets
from holdfast.processes import Blocks
from holdfast.regimes.base import StepContext
from holdfast.sphere import pairwise_distance


def mine_triplets(miner: Miner, encoded: Encoded, generator: Generator) -> Triplets:
    """The triplets that a miner finds in a batch."""
    found = miner(encoded.z, encoded.labels, generator, encoded.numbers)
    if not isinstance(found, Triplets):
        raise RecipeError(f"{type(miner).__name__} says that it mines triplets, and mined pairs; set triplets = False")
    if len(found.anchor) == 0:
        raise DataError("no triplet can be formed in this batch; it needs two classes with two images each")
    return found


def flat_rows(triplets: Triplets) -> Tensor:
    """Row numbers of all slots, triplet by triplet: anchor, positive, negative, anchor, ..."""
    return torch.stack(triplets, 1).flatten()


def flat_blocks(triplets: Triplets) -> Blocks:
    """What a pass over all slots consists of: triplets that stay together."""
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
