"""How a batch is sharded over processes: consecutive, as equal as can be, never through the middle of a group."""

from __future__ import annotations

from itertools import accumulate
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


def held_rows(blocks: Blocks, rank: int, world: int) -> Tensor:
    """The rows that a process has of all blocks, counted through all blocks."""
    starts = accumulate((count for count, _ in blocks), initial=0)
    parts = [(start, shard(count, group, rank, world)) for start, (count, group) in zip(starts, blocks, strict=False)]
    return torch.cat([torch.arange(start + part.start, start + part.stop) for start, part in parts])


def block_order(blocks: Blocks, world: int) -> Tensor:
    """Where each row of the blocks is once the shards of all processes lie behind one another."""
    return torch.cat([held_rows(blocks, rank, world) for rank in range(world)]).argsort()
