"""Which entries of the matrix are positive and which negative pairs; on a CPU they are listed where they are few."""

from __future__ import annotations

from typing import TypeAlias

import torch
from torch import Tensor

from holdfast.losses.sides import ABSENT, Listed, Masked, Sides, Unlisted
from holdfast.mining import Triplets, Tuples
from holdfast.mining.batch import relations, require_labels
from holdfast.sphere import Mask, precise

FEW = 0.4
"""The part of a batch up to which the columns of a row are few; for more a mask is faster."""

Columns: TypeAlias = tuple[Tensor, Tensor]
"""The columns of each row, of shape (n, most), and which of them are real; the others are the row itself."""


def sides_by_labels(embeddings: Tensor, labels: Tensor, distances: bool) -> Sides:
    """All pairs of a batch.

    Args:
        embeddings: vectors of shape (n, dim).
        labels: integers of shape (n,), or a boolean n × n relevance matrix.
        distances: larger entries of the matrix are farther, not nearer.
    """
    require_labels(embeddings, labels)
    absent = ABSENT if distances else -ABSENT
    same = _same(embeddings, labels) if labels.device.type == "cpu" and len(labels) else None
    if same is None:
        positive, negative = _masks(embeddings, labels)
        return Sides(Masked(positive, -absent), Masked(negative, absent))
    columns, real = same
    others = real & (columns != torch.arange(len(columns))[:, None])
    return Sides(Listed(columns, others, -absent), Unlisted(columns, absent))


def sides_by_tuples(embeddings: Tensor, tuples: Tuples, distances: bool) -> Sides:
    """The pairs of given tuples, each once.

    Args:
        embeddings: vectors of shape (n, dim).
        tuples: triplets or pairs.
        distances: larger entries of the matrix are farther, not nearer.
    """
    absent = ABSENT if distances else -ABSENT
    size = len(embeddings)
    near = far = None
    if tuples.anchor.device.type == "cpu" and size:
        near, far = (_listed(*_once(anchor, other, size), size) for anchor, other in _pairs(tuples))
    if near is not None and far is not None:
        return Sides(Listed(*near, -absent), Listed(*far, absent))
    positive, negative = (mask.to(precise(embeddings).dtype) for mask in masks_of(tuples, size))
    return Sides(
        Masked(positive, -absent) if near is None else Listed(*near, -absent),
        Masked(negative, absent) if far is None else Listed(*far, absent),
    )


def masks_of(tuples: Tuples, size: int) -> tuple[Mask, Mask]:
    """Positive and negative pairs of given tuples as n × n masks."""
    positive = torch.zeros(size, size, dtype=torch.bool, device=tuples.anchor.device)
    negative = torch.zeros_like(positive)
    if isinstance(tuples, Triplets):
        chosen = torch.ones_like(tuples.anchor, dtype=torch.bool)  # a plain True would be copied from the host
        positive[tuples.anchor, tuples.positive] = chosen
        negative[tuples.anchor, tuples.negative] = chosen
    else:
        positive[tuples.anchor, tuples.other] = tuples.same
        negative[tuples.anchor, tuples.other] = ~tuples.same
    return positive, negative


def _masks(embeddings: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
    """Positive and negative pairs as zeros and ones; no booleans on the way, whose conversion is slow on a CPU."""
    dtype = precise(embeddings).dtype
    if labels.dtype == torch.bool:
        positive, negative = relations(embeddings, labels)
        return positive.to(dtype), negative.to(dtype)
    # Labels counted from zero: any label fits 64 bits only, but their number fits a float.
    ordered, order = labels.sort()
    steps = torch.zeros_like(order)
    steps[1:] = ordered[1:] != ordered[:-1]
    codes = torch.empty_like(order).scatter_(0, order, steps.cumsum(0)).to(dtype)
    same = codes.new_empty(len(codes), len(codes))
    torch.eq(codes[:, None], codes[None, :], out=same)
    negative = 1 - same
    same.diagonal().zero_()
    return same, negative


def _same(embeddings: Tensor, labels: Tensor) -> Columns | None:
    """What is not a negative of each image, itself included; nothing where a class is not few."""
    if labels.dtype == torch.bool:
        rows, columns = (~relations(embeddings, labels)[1]).nonzero(as_tuple=True)
        return _listed(rows, columns, len(labels))
    ordered, order = labels.sort(stable=True)
    _, places, counts = torch.unique_consecutive(ordered, return_inverse=True, return_counts=True)
    most = int(counts.max())
    if most > FEW * len(labels):
        return None
    own = torch.arange(len(order))
    back = torch.empty_like(order).scatter_(0, order, own)
    number = places[back]  # of its class, image by image
    within = torch.arange(most)
    real = within < counts[number, None]
    columns = order[((counts.cumsum(0) - counts)[number, None] + within).clamp_max_(len(order) - 1)]
    return torch.where(real, columns, own[:, None]), real


def _pairs(tuples: Tuples) -> tuple[tuple[Tensor, Tensor], tuple[Tensor, Tensor]]:
    """Anchors and others of the positive pairs, and of the negative ones."""
    if isinstance(tuples, Triplets):
        return (tuples.anchor, tuples.positive), (tuples.anchor, tuples.negative)
    same = tuples.same
    return (tuples.anchor[same], tuples.other[same]), (tuples.anchor[~same], tuples.other[~same])


def _once(anchor: Tensor, other: Tensor, size: int) -> tuple[Tensor, Tensor]:
    """The pairs in the order of the matrix, without repetition."""
    place = anchor * size + other
    if bool((place[1:] <= place[:-1]).any()):  # miners of pairs return them in order, which saves the sorting
        place = torch.unique(place)
    return place // size, place % size


def _listed(rows: Tensor, columns: Tensor, size: int) -> Columns | None:
    """Ordered entries of the matrix as columns per row; nothing where those are not few."""
    counts = rows.bincount(minlength=size)
    most = max(1, int(counts.max()))
    if most > FEW * size:
        return None
    within = torch.arange(len(rows)) - (counts.cumsum(0) - counts)[rows]
    listed = torch.arange(size)[:, None].repeat(1, most)
    listed[rows, within] = columns
    return listed, torch.arange(most) < counts[:, None]
