"""Decoded images, kept where they are used if they fit; many are decoded at once, with threads."""

from __future__ import annotations

import contextlib
import itertools
import os
from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from holdfast.data.augment import centre_crop
from holdfast.data.ragged import RaggedImages
from holdfast.data.sources import BadImage, Pixels
from holdfast.data.table import ImageTable
from holdfast.errors import DataError, described, plural
from holdfast.view import View

Cache = Literal["auto", "device", "memory", "none"]

DEVICE_FRACTION = 0.4
MEMORY_FRACTION = 0.3
WORKERS = min(8, os.cpu_count() or 1)
CHUNK = 64
OBLONG = 1.5
"""How much longer than wide a photograph usually is, for the room that a set of them will take."""

Chunk = tuple[NDArray[np.int64], list[Pixels], dict[int, BadImage]]
"""Rows that could be read, their pixels (height, width, 3), and why others could not."""


class ImageStore:
    """The images of a table as bytes in their own shapes, on the device, in memory or decoded at each use.

    Args:
        table: the images.
        view: what a model sees of an image; images are stored at its canvas, and cropped when asked for.
        device: where `get` delivers.
        cache: "device" keeps all images there, "memory" in the computer's memory, "none" decodes at each use; "auto"
            takes the device if they fill at most 40 % of its free memory, else memory if they fill at most 30 % of
            what is available, else none.
        skip_bad: leave out images that cannot be read, instead of stopping at the first; `table` is then without
            them, and `skipped` says which and why. With "none" this costs a pass over all files.
    """

    def __init__(
        self, table: ImageTable, view: View, device: torch.device | str, cache: Cache = "auto", skip_bad: bool = False
    ) -> None:
        self.table, self.view, self.device = table, view, torch.device(device)
        self.skipped: list[tuple[str, str]] = []
        expected = 3 * view.canvas**2 * (OBLONG if view.fit == "crop" else 1)
        self._bytes = round(len(table) * expected)
        self.cache: Cache = choose_cache(self._bytes, self.device) if cache == "auto" else cache
        self._pool = ThreadPoolExecutor(WORKERS, thread_name_prefix="decode")  # threads start when first used
        self._images: RaggedImages | None = None
        self._prefetched: tuple[Tensor, list[Future[Chunk]]] | None = None
        if self.cache != "none" or skip_bad:
            self._fill(skip_bad)
        if self.cache != "none":
            self._pool.shutdown()

    def __len__(self) -> int:
        return len(self.table)

    def _fill(self, skip_bad: bool) -> None:
        """Decode everything once, closing the gaps that bad images leave."""
        buffer = _Buffer(self._bytes // 3, self.device if self.cache == "device" else torch.device("cpu"))
        good: list[NDArray[np.int64]] = []
        for rows, images, bad in chunks(self.table, self.view, self._pool):
            if bad and not skip_bad:
                raise bad[min(bad)]
            self.skipped += [(self.table.ids[row], error.reason) for row, error in bad.items()]
            if self.cache != "none":
                buffer.append(images)
            good.append(rows)
        if self.skipped:
            kept = np.concatenate(good)
            if not len(kept):
                raise DataError(f"none of the {len(self.table):,} images of '{self.table.name}' can be read")
            self.table = self.table.subset(kept)
        if self.cache != "none":
            self._images = buffer.images()
            self._bytes = self._images.pixels.numel()

    def get(self, rows: Tensor) -> RaggedImages:
        """Images of some rows of `table`, on the device."""
        cached = self._images
        picked = self._decoded(rows.cpu()) if cached is None else cached[rows.to(cached.device)]
        return picked.packed(self.device)

    def inputs(self, rows: Tensor) -> Tensor:
        """What a model sees of some rows: float32 in [0, 1], (n, 3, size, size), channels last in memory."""
        return centre_crop(self.get(rows), self.view)

    def prefetch(self, rows: Tensor) -> None:
        """Start decoding the rows that the next `get` will ask for; nothing to do where images are cached."""
        if self._images is None:
            rows = rows.cpu()
            self._prefetched = rows, self._submit(rows)

    def describe(self) -> str:
        """One line: how many images are kept where, and how much room they take."""
        room = f"{self._bytes / 1e9:.1f} GB" if self._bytes >= 1e9 else f"{self._bytes / 1e6:.1f} MB"
        places = {"device": f"cached on {self.device}", "memory": "cached in memory", "none": "decoded at each use"}
        skipped = f"; {len(self.skipped):,} unreadable skipped" if self.skipped else ""
        odd = len(self.table.source.odd)
        warned = f"; {plural(odd, 'image')} with a warning (`holdfast check` says why)" if odd else ""
        return f"{plural(len(self.table), 'image')} {places[self.cache]} ({room}){skipped}{warned}"

    def _submit(self, rows: Tensor) -> list[Future[Chunk]]:
        parts = np.array_split(rows.numpy(), min(WORKERS, max(len(rows), 1)))
        return [self._pool.submit(read_chunk, self.table, part, self.view) for part in parts]

    def _decoded(self, rows: Tensor) -> RaggedImages:
        waiting = self._prefetched
        if waiting is not None and torch.equal(waiting[0], rows):
            self._prefetched, parts = None, waiting[1]
        else:
            parts = self._submit(rows)
        images: list[Pixels] = []
        for part in parts:
            _, decoded, bad = part.result()
            if bad:
                raise bad[min(bad)]
            images += decoded
        return RaggedImages.of(images)


class _Buffer:
    """Pixels of images whose sizes come to light one by one.

    Args:
        expected: how many pixels there will be; more are welcome.
        device: where to keep them.
    """

    def __init__(self, expected: int, device: torch.device) -> None:
        self._pixels = torch.empty((expected, 3), dtype=torch.uint8, device=device)
        self._filled = 0
        self._shapes: list[tuple[int, ...]] = []

    def append(self, images: list[Pixels]) -> None:
        """Add some images; room is made where it lacks."""
        self._shapes += [image.shape[:2] for image in images]
        added = RaggedImages.of(images).pixels
        end = self._filled + len(added)
        if end > len(self._pixels):
            wider = self._pixels.new_empty((end + end // 4, 3))
            wider[: self._filled] = self._pixels[: self._filled]
            self._pixels = wider
        self._pixels[self._filled : end] = added
        self._filled = end

    def images(self) -> RaggedImages:
        """All images."""
        shapes = np.array(self._shapes, np.int64).reshape(-1, 2)
        return RaggedImages.shaped(self._pixels[: self._filled], shapes)


def choose_cache(size: int, device: torch.device) -> Cache:
    """Where `size` bytes of images fit; processes on one machine share its memory."""
    if device.type == "cuda" and size <= DEVICE_FRACTION * torch.cuda.mem_get_info(device)[0]:
        return "device"
    fraction = MEMORY_FRACTION / int(os.environ.get("LOCAL_WORLD_SIZE", "1"))
    return "memory" if size <= fraction * available_memory() else "none"


def available_memory() -> int:
    """Bytes of the computer's memory that are free to take."""
    import psutil  # type: ignore[import-untyped]  # comes with accelerate

    return int(psutil.virtual_memory().available)


def chunks(table: ImageTable, view: View, pool: ThreadPoolExecutor) -> Iterator[Chunk]:
    """The whole table in order; only a few chunks are in memory at a time."""
    starts = iter(range(0, len(table), CHUNK))
    waiting: deque[Future[Chunk]] = deque()
    while True:
        for start in itertools.islice(starts, 2 * WORKERS - len(waiting)):
            rows = np.arange(start, min(start + CHUNK, len(table)))
            waiting.append(pool.submit(read_chunk, table, rows, view))
        if not waiting:
            return
        yield waiting.popleft().result()


def read_chunk(table: ImageTable, rows: NDArray[np.int64], view: View) -> Chunk:
    """Read some rows; those that cannot be decoded are returned with the reason."""
    good: list[int] = []
    pixels: list[Pixels] = []
    bad: dict[int, BadImage] = {}
    try:
        with contextlib.suppress(BadImage):
            return rows, table.source.images(table.positions[rows], view), bad
        for row in rows.tolist():
            try:
                pixels.append(table.source.image(int(table.positions[row]), view))
                good.append(row)
            except BadImage as error:
                bad[row] = error
    except (RuntimeError, SystemExit) as error:  # no fault of an image: those are told by name
        raise DataError(f"a thread that decodes images died ({described(error)}); start again") from error
    return np.array(good, np.int64), pixels, bad
