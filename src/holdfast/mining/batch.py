"""What every miner looks at: the pairs of a batch and how far apart they are."""

from __future__ import annotations

from functools import cached_property

import torch
from torch import Tensor

from holdfast.errors import DataError
from holdfast.mining.known import known_of
from holdfast.mining.tuples import Recalled
from holdfast.sphere import Mask, pair_masks, similarity, squared_distances


def require_labels(embeddings: Tensor, labels: Tensor) -> None:
    """Refuse labels that do not fit the batch."""
    if len(labels) != len(embeddings):
        raise DataError(f"{len(embeddings)} embeddings came with {len(labels)} labels; give one label per embedding")
    if labels.dtype != torch.bool and labels.ndim != 1:
        raise DataError(f"labels must have shape (n,), got {tuple(labels.shape)}")


def relations(
    embeddings: Tensor, labels: Tensor, images: Tensor | None = None, recalled: Recalled | None = None
) -> tuple[Mask, Mask]:
    """Positive and negative pairs of a batch, or of a batch with a memory; checked against their sizes.

    Args:
        images: which image each row shows; copies of one image are no positives. All are different when left out.
        recalled: the memory, whose last rows are the batch; no image is paired with itself there.
    """
    require_labels(embeddings, labels)
    if images is not None and images.shape != (len(embeddings),):
        raise DataError(f"{len(embeddings)} embeddings came with image numbers of shape {tuple(images.shape)}")
    if recalled is None:
        positive, negative = pair_masks(labels)
    else:
        positive = labels[:, None] == recalled.labels[None, :]
        negative = ~positive
        positive.diagonal(positive.shape[1] - positive.shape[0]).fill_(False)
    if images is None:
        return positive, negative
    others = images if recalled is None else recalled.images
    return positive & (images[:, None] != others[None, :]), negative


def some(mask: Mask) -> Tensor:
    """Which rows hold anything: `any(1)`, which is slow for booleans on a CPU."""
    return mask.view(torch.uint8).amax(1).bool()


class MiningBatch:
    """The pairs of one batch; distances are measured when first asked for.

    Args:
        embeddings: vectors of shape (n, dim); no gradient is taken through mining.
        labels: integers of shape (n,), or a boolean n × n relevance matrix.
        images: which image each row shows; all are different when left out.
        recalled: a memory, in which positives and negatives are looked for; its last rows are the batch.
    """

    def __init__(
        self,
        embeddings: Tensor,
        labels: Tensor,
        images: Tensor | None = None,
        recalled: Recalled | None = None,
    ) -> None:
        if len(embeddings) == 0:
            raise DataError("this batch has no images; mining needs two or more classes per batch")
        self.positive, self.negative = relations(embeddings, labels, images, recalled)
        known = known_of(labels)
        self.known_complete = known is not None and (known.complete if images is None else known.distinct)
        self.known_paired = known is not None and known.paired
        self.vectors = embeddings.detach()
        self.others = None if recalled is None else recalled.vectors

    @cached_property
    def distance(self) -> Tensor:
        """Euclidean distances, n × n or to all of a memory."""
        # No gradient is taken, so the root needs no care at zero.
        return squared_distances(self.vectors, self.others).sqrt()

    @cached_property
    def similarity(self) -> Tensor:
        """Dot products, n × n or with all of a memory."""
        return similarity(self.vectors, self.others)

    @cached_property
    def complete(self) -> Tensor:
        """Which rows have a positive and a negative."""
        return some(self.positive) & some(self.negative)

    def require_classes(self) -> None:
        """Refuse a batch in which nothing can be told apart."""
        if not bool(self.negative.any()):
            raise DataError("every image of this batch has the same label; mining needs two or more classes per batch")

    @property
    def own(self) -> Tensor:
        """The column of each image itself."""
        rows, columns = self.positive.shape
        return torch.arange(columns - rows, columns, device=self.positive.device)

    @property
    def partner(self) -> Tensor:
        """The other image of each consecutive pair (0, 1), (2, 3), ...; an odd last image is its own."""
        index = torch.arange(len(self.vectors), device=self.vectors.device)
        return self.own[(index ^ 1).clamp_max(len(index) - 1)]

    @property
    def paired(self) -> Tensor:
        """Whether an image and its partner share a class; they may be copies of one image."""
        partner = self.partner
        return ~self.negative.gather(1, partner[:, None]).squeeze(1) & (partner != self.own)
