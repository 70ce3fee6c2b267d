"""Images that keep their shapes, one after another in one buffer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from holdfast.devices import sent
from holdfast.errors import DataError


@dataclass(frozen=True, eq=False)
class RaggedImages:
    """Images of several shapes as bytes; choosing some of them copies no pixel.

    Args:
        pixels: uint8, (total, 3), the rows of each image one after another.
        starts: where in `pixels` each image begins.
        heights: of each image.
        widths: of each image.
        longest: no side of an image is longer; known without asking the device.
        shorter: no image has a longer shorter side; likewise.
        shortest: no side of an image is shorter; likewise, of the whole buffer.
    """

    pixels: Tensor
    starts: Tensor
    heights: Tensor
    widths: Tensor
    longest: int
    shorter: int
    shortest: int

    @classmethod
    def of(cls, images: Sequence[NDArray[np.uint8]] | Tensor, *, pinned: bool = False) -> RaggedImages:
        """From arrays of shape (height, width, 3), or from a uint8 tensor of shape (n, 3, height, width).

        Arrays may go to pinned memory, from which a copy to a GPU does not wait for it.
        """
        if isinstance(images, Tensor):
            count, _, height, width = images.shape
            return cls.shaped(images.permute(0, 2, 3, 1).reshape(-1, 3), np.full((count, 2), (height, width)))
        shapes = np.array([image.shape[:2] for image in images], np.int64).reshape(-1, 2)
        flat = torch.empty((int(shapes.prod(1).sum()), 3), dtype=torch.uint8, pin_memory=pinned)
        np.concatenate([np.empty((0, 3), np.uint8), *(image.reshape(-1, 3) for image in images)], out=flat.numpy())
        return cls.shaped(flat, shapes)

    @classmethod
    def sent(cls, images: Sequence[NDArray[np.uint8]], device: torch.device) -> RaggedImages:
        """From arrays, on a device: one copy of their pixels here, by this thread alone, and one to there."""
        here = cls.of(images, pinned=device.type == "cuda")
        starts, heights, widths = sent(torch.stack((here.starts, here.heights, here.widths)), device)
        pixels = here.pixels.to(device, non_blocking=True)
        return replace(here, pixels=pixels, starts=starts, heights=heights, widths=widths)

    @classmethod
    def shaped(cls, pixels: Tensor, shapes: NDArray[np.int64]) -> RaggedImages:
        """From a buffer and the height and width of each image in it."""
        ends = np.cumsum(shapes.prod(1))
        starts, heights, widths = (
            torch.from_numpy(np.ascontiguousarray(column)).to(pixels.device)
            for column in (ends - shapes.prod(1), shapes[:, 0], shapes[:, 1])
        )
        longest, shorter = int(shapes.max(initial=0)), int(shapes.min(1).max(initial=0))
        return cls(pixels, starts, heights, widths, longest, shorter, int(shapes.min()) if len(shapes) else 0)

    def __len__(self) -> int:
        return len(self.starts)

    def __getitem__(self, rows: Tensor) -> RaggedImages:
        return replace(self, starts=self.starts[rows], heights=self.heights[rows], widths=self.widths[rows])

    @property
    def device(self) -> torch.device:
        """Where the pixels are."""
        return self.pixels.device

    @property
    def windows(self) -> Tensor:
        """Top, left, height and width of all there is of each image."""
        zeros = torch.zeros_like(self.heights)
        return torch.stack((zeros, zeros, self.heights, self.widths), 1)

    def arrays(self) -> list[NDArray[np.uint8]]:
        """Each image as an array of shape (height, width, 3)."""
        shapes = torch.stack((self.starts, self.heights, self.widths), 1).tolist()
        return [self.pixels[at : at + h * w].view(h, w, 3).cpu().numpy() for at, h, w in shapes]

    def packed(self, device: torch.device) -> RaggedImages:
        """The same images in a buffer of their own on a device; as they are where they are there already."""
        if self.device.type == device.type:
            return self
        return RaggedImages.sent(self.arrays(), device)

    def pick(self, rows: Tensor, columns: Tensor, outside: bool = False) -> Tensor:
        """Pixels at the crossings of some rows and columns of each image.

        Args:
            rows: (n, R), for each image.
            columns: (n, C).
            outside: whether any may lie outside its image; those pixels are black.

        Returns:
            uint8, (n, 3, R, C), channels last in memory.
        """
        height, width = self.heights[:, None], self.widths[:, None]
        inside = None
        if outside:
            inside = ((rows >= 0) & (rows < height))[:, :, None] & ((columns >= 0) & (columns < width))[:, None]
            rows, columns = torch.minimum(rows.clamp(min=0), height - 1), torch.minimum(columns.clamp(min=0), width - 1)
        picked = self.pixels[(self.starts[:, None] + rows * width)[:, :, None] + columns[:, None]]
        if inside is not None:
            picked = picked * inside[..., None]
        return picked.permute(0, 3, 1, 2)

    def refuse_smaller(self, size: int, padding: int = 0) -> None:
        """Refuse a crop that does not fit into every image of the buffer; no device is asked."""
        if len(self) and self.shortest + 2 * padding < size:
            raise DataError(f"a crop of {size} px does not fit into images of {self.shortest} px; store them larger")
