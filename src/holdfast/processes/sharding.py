"""How a batch is sharded over processes: consecutive, as equal as can be, never through the middle of a group."""

from __future__ import annotations

from itertools import pairwise
from typing import TypeAlias

import torch
from torch import Tensor

Blocks: TypeAlias = tuple[tuple[int, int], ...]
"""What a pass consists of: (images, images per group) of each block; triplets and then single images are
`((3 * t, 3), (n, 1))`. Each process holds its shard of the first block, then of the second, and so on."""


def shard(count: int, group: int, rank: int, world: int) -> slice:
    """The rows that a process has of `count`, whose groups of consecutive rows stay together."""
    groups = count // group
    return slice(groups * rank // world * group, groups * (rank + 1) // world * group)


def sizes(blocks: Blocks, world: int) -> list[int]:
    """How many rows each process has of all blocks together."""
    return [
        sum((part := shard(count, group, rank, world)).stop - part.start for count, group in blocks)
        for rank in range(world)
    ]


def block_order(blocks: Blocks, world: int) -> Tensor | None:
    """Where each row of the blocks is once the shards of all processes lie behind one another; None if it is there."""
    if len(blocks) == 1:
        return None
    places: list[list[Tensor]] = [[] for _ in blocks]
    starts = [0]
    for size in sizes(blocks, world):
        starts.append(starts[-1] + size)
    for rank, (start, _) in enumerate(pairwise(starts)):
        for found, (count, group) in zip(places, blocks, strict=True):
            part = shard(count, group, rank, world)
            found.append(torch.arange(start, start + part.stop - part.start))
            start += part.stop - part.start
    return torch.cat([place for found in places for place in found])
