"""Decoded images, kept where they are used if they fit."""

from __future__ import annotations

import os
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from holdfast.data.loading import WORKERS, Chunk, chunks, read_chunk
from holdfast.data.table import ImageTable
from holdfast.errors import DataError

Cache = Literal["auto", "device", "memory", "none"]

DEVICE_SHARE = 0.4
MEMORY_SHARE = 0.3


class ImageStore:
    """The images of a table as bytes at one size, on the device, in memory or decoded at each use.

    Args:
        table: the images.
        size: side of the stored images in pixels.
        device: where `get` delivers.
        cache: "device" keeps all images there, "memory" in the computer's memory, "none" decodes at each use; "auto"
            takes the device if they fill at most 40 % of its free memory, else memory if they fill at most 30 % of
            what is available, else none.
        skip_bad: leave out images that cannot be read, instead of stopping at the first; `table` is then without
            them, and `skipped` says which and why. With "none" this costs a pass over all files.
    """

    def __init__(
        self, table: ImageTable, size: int, device: torch.device | str, cache: Cache = "auto", skip_bad: bool = False
    ) -> None:
        self.table, self.size, self.device = table, size, torch.device(device)
        self.skipped: list[tuple[str, str]] = []
        self.cache: Cache = choose_cache(len(table) * self._bytes, self.device) if cache == "auto" else cache
        self._pool = ThreadPoolExecutor(WORKERS, thread_name_prefix="decode")  # threads start when first used
        self._images: Tensor | None = None
        self._prefetched: tuple[Tensor, list[Future[Chunk]]] | None = None
        if self.cache != "none":
            place = self.device if self.cache == "device" else torch.device("cpu")
            self._images = torch.empty((len(table), size, size, 3), dtype=torch.uint8, device=place)
        if self.cache != "none" or skip_bad:
            self._fill(skip_bad)
        if self.cache != "none":
            self._pool.shutdown()

    @property
    def _bytes(self) -> int:
        """Of one image."""
        return 3 * self.size**2

    def __len__(self) -> int:
        return len(self.table)

    def _fill(self, skip_bad: bool) -> None:
        """Decode everything once, closing the gaps that bad images leave."""
        good: list[NDArray[np.int64]] = []
        filled = 0
        for rows, pixels, bad in chunks(self.table, self.size, self._pool):
            if bad and not skip_bad:
                raise bad[min(bad)]
            self.skipped += [(self.table.ids[row], error.reason) for row, error in bad.items()]
            if self._images is not None:
                self._images[filled : filled + len(rows)] = torch.from_numpy(pixels)
            filled += len(rows)
            good.append(rows)
        if self.skipped:
            if not filled:
                raise DataError(f"none of the {len(self.table):,} images of '{self.table.name}' can be read")
            self.table = self.table.subset(np.concatenate(good))
            self._images = None if self._images is None else self._images[:filled]

    def get(self, rows: Tensor) -> Tensor:
        """Images of some rows of `table`: uint8, (n, 3, size, size), channels last in memory, on the device."""
        cached = self._images
        picked = self._decoded(rows.cpu()) if cached is None else cached[rows.to(cached.device)]
        return picked.to(self.device).permute(0, 3, 1, 2)

    def prefetch(self, rows: Tensor) -> None:
        """Start decoding the rows that the next `get` will ask for; nothing to do where images are cached."""
        if self._images is None:
            rows = rows.cpu()
            self._prefetched = rows, self._submit(rows)

    def describe(self) -> str:
        """One line: how many images are kept where, and how much room they take."""
        total = len(self.table) * self._bytes
        room = f"{total / 1e9:.1f} GB" if total >= 1e9 else f"{total / 1e6:.1f} MB"
        places = {"device": f"cached on {self.device}", "memory": "cached in memory", "none": "decoded at each use"}
        skipped = f"; {len(self.skipped):,} unreadable skipped" if self.skipped else ""
        return f"{len(self.table):,} images {places[self.cache]} ({room}){skipped}"

    def _submit(self, rows: Tensor) -> list[Future[Chunk]]:
        parts = np.array_split(rows.numpy(), min(WORKERS, max(len(rows), 1)))
        return [self._pool.submit(read_chunk, self.table, part, self.size) for part in parts]

    def _decoded(self, rows: Tensor) -> Tensor:
        waiting = self._prefetched
        if waiting is not None and torch.equal(waiting[0], rows):
            self._prefetched, parts = None, waiting[1]
        else:
            parts = self._submit(rows)
        pixels = []
        for part in parts:
            _, images, bad = part.result()
            if bad:
                raise bad[min(bad)]
            pixels.append(images)
        return torch.from_numpy(np.concatenate(pixels))


def choose_cache(size: int, device: torch.device) -> Cache:
    """Where `size` bytes of images fit; processes on one machine share its memory."""
    if device.type == "cuda" and size <= DEVICE_SHARE * torch.cuda.mem_get_info(device)[0]:
        return "device"
    share = MEMORY_SHARE / int(os.environ.get("LOCAL_WORLD_SIZE", "1"))
    return "memory" if size <= share * available_memory() else "none"


def available_memory() -> int:
    """Bytes of the computer's memory that are free to take."""
    import psutil  # type: ignore[import-untyped]  # comes with accelerate

    return int(psutil.virtual_memory().available)
