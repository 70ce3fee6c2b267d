"""Attacked images in blocks."""

from __future__ import annotations

import dataclasses
from collections.abc import Container
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # pages read the terms of protocols without torch
    from torch import Tensor


@dataclasses.dataclass(frozen=True)
class Cut:
    """The attacked images in blocks.

    Args:
        blocks: where each begins and ends.
        order: positions of `subject.rows`, block after block; in the order they have when left out.
    """

    blocks: list[slice]
    order: Tensor | None = None

    @classmethod
    def every(cls, size: int, count: int, order: Tensor | None = None) -> Cut:
        """Blocks of one size, the last of which may be smaller."""
        return cls([slice(start, min(start + size, count)) for start in range(0, count, size)], order)

    def rows_in_turn(self, world: int, done: Container[int] = ()) -> int:
        """Images that are attacked one after another where processes take a block each at a time.

        Args:
            world: how many processes there are.
            done: numbers of blocks that need no attack.
        """
        sizes = [block.stop - block.start for number, block in enumerate(self.blocks) if number not in done]
        return sum(sizes[::world])
