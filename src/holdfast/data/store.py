"""Decoded images, kept where they are used if they fit."""

from __future__ import annotations

import os
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from holdfast.data.augment import Augment, CentreCrop
from holdfast.data.decoding import Decoder, chunks
from holdfast.data.disk import DiskImages, disk_folder, free_bytes
from holdfast.data.ragged import RaggedImages
from holdfast.data.resampling import Pixels
from holdfast.data.table import ImageTable
from holdfast.data.workers import default_workers, expected_bytes
from holdfast.devices import free_memory
from holdfast.errors import DataError, plural
from holdfast.files import cache_folder
from holdfast.view import AtMost, View

Cache = Literal["auto", "device", "memory", "disk", "none"]

DEVICE_FRACTION = 0.4
MEMORY_FRACTION = 0.3
DISK_FRACTION = 0.5


class ImageStore:
    """The images of a table as bytes in their own shapes, on the device, in memory, on disk or decoded at each use.

    Args:
        table: the images.
        view: what a model sees of an image; images are stored at its canvas (of `AtMost`, at theirs where that is
            smaller), and cropped when asked for.
        device: where `get` delivers.
        cache: "device" keeps all images there, "memory" in the computer's memory, "disk" decoded in a file of the cache
            folder (`HOLDFAST_CACHE`), which later runs find again, "none" decodes at each use; "auto" takes the device
            if they fill at most 40 % of its free memory, else memory if they fill at most 30 % of what is available,
            else the disk if they fill at most half of what is free there, else none.
        skip_bad: leave out images that cannot be read, instead of stopping at the first; `table` is then without
            them, and `skipped` says which and why. With "none" this costs a pass over all files.
        once: each image is asked for once, so that "auto" fills no disk.
        workers: threads that decode, or processes where there are many; one for each core when left out.
    """

    def __init__(
        self,
        table: ImageTable,
        view: View,
        device: torch.device | str,
        cache: Cache = "auto",
        skip_bad: bool = False,
        *,
        once: bool = False,
        workers: int | None = None,
    ) -> None:
        self.table, self.view, self.device = table, view, torch.device(device)
        self.skipped: list[tuple[str, str]] = []
        self.workers = workers or default_workers()
        self.centre: Augment = CentreCrop(size=view.size).fitted(view)
        """What `inputs` shows."""
        self._bytes = _expected(table, view)
        self.cache: Cache = choose_cache(self._bytes, self.device, once) if cache == "auto" else cache
        self._images: RaggedImages | None = None
        self._where = ""
        if self.cache == "disk":
            self._open_disk(skip_bad)
        elif self.cache != "none" or skip_bad:
            self._fill(skip_bad)
        self._decoder = Decoder(self.table, view, self.device, self.workers)

    def __len__(self) -> int:
        return len(self.table)

    def _open_disk(self, skip_bad: bool) -> None:
        kept = DiskImages(self.table, self.view, disk_folder())
        self._images, bad = kept.open(self._bytes, self.workers, skip_bad)
        self._leave_out(bad, np.array([row for row in range(len(self.table)) if row not in bad], np.int64))
        self._bytes, self._where = self._images.pixels.numel(), str(kept.folder)

    def _fill(self, skip_bad: bool) -> None:
        """Decode everything once, closing the gaps that bad images leave."""
        target = self.device if self.cache == "device" else torch.device("cpu")
        buffer = None if self.cache == "none" else _Buffer(self._bytes // 3, target)
        good: list[NDArray[np.int64]] = []
        bad: dict[int, str] = {}
        for rows, images, errors in chunks(self.table, self.view, self.workers):
            if errors and not skip_bad:
                raise errors[min(errors)]
            bad |= {row: error.reason for row, error in errors.items()}
            good.append(rows)
            if buffer is not None:
                buffer.append(images)
        self._leave_out(bad, np.concatenate([np.empty(0, np.int64), *good]))
        if buffer is not None:
            self._images = buffer.images()
            self._bytes = self._images.pixels.numel()

    def _leave_out(self, bad: dict[int, str], good: NDArray[np.int64]) -> None:
        """Go on without the images that cannot be read."""
        if not bad:
            return
        if not len(good):
            raise DataError(f"none of the {len(self.table):,} images of '{self.table.name}' can be read")
        self.skipped = [(self.table.ids[row], why) for row, why in bad.items()]
        self.table = self.table.subset(good)

    def get(self, rows: Tensor) -> RaggedImages:
        """Images of some rows of `table`, on the device."""
        cached = self._images
        if cached is None:
            return self._decoder.images(rows)
        return cached[rows.to(cached.device)].packed(self.device)

    def views(self, rows: Tensor, augment: Augment, draws: Tensor) -> Tensor:
        """What an augmentation shows of some rows: float32 in [0, 1], channels last in memory.

        Args:
            rows: of `table`.
            augment: of a size.
            draws: what it drew for each of them.
        """
        if self._images is None:
            return self._decoder.views(rows, augment, draws)
        return augment.view(self.get(rows), draws)

    def inputs(self, rows: Tensor) -> Tensor:
        """What a model sees of some rows: float32 in [0, 1], (n, 3, size, size), channels last in memory."""
        return self.views(rows, self.centre, torch.empty(len(rows), 0))

    def shown(self, images: RaggedImages) -> Tensor:
        """The same of images that `get` gave."""
        return self.centre.view(images, torch.empty(len(images), 0))

    def prefetch(self, rows: Tensor, augment: Augment | None = None, draws: Tensor | None = None) -> None:
        """Start decoding what `get`, or with an augmentation `views`, will ask for; a cache has it already."""
        if self._images is None:
            self._decoder.prefetch(rows, augment, draws)

    def prefetch_inputs(self, rows: Tensor) -> None:
        """Start decoding what `inputs` will ask for."""
        self.prefetch(rows, self.centre, torch.empty(len(rows), 0))

    def describe(self) -> str:
        """One line: how many images are kept where, and how much room they take."""
        room = f"{self._bytes / 1e9:.1f} GB" if self._bytes >= 1e9 else f"{self._bytes / 1e6:.1f} MB"
        places = {"device": f"cached on {self.device}", "memory": "cached in memory", "none": "decoded at each use"}
        places["disk"] = f"cached on disk in {self._where}"
        skipped = f"; {len(self.skipped):,} unreadable skipped" if self.skipped else ""
        odd = len(self.table.source.odd)
        warned = f"; {plural(odd, 'image')} with a warning (`holdfast check` says why)" if odd else ""
        return f"{plural(len(self.table), 'image')} {places[self.cache]} ({room}){skipped}{warned}"


def _expected(table: ImageTable, view: View) -> int:
    """Bytes that a table will take at a view's canvas, about; where images may stay smaller, as a few of them tell."""
    stored = [view.resized(*size[::-1]) for size in table.sizes()] if isinstance(view, AtMost) else []
    own = 3 * sum(height * width for height, width in stored) / len(stored) if stored else expected_bytes(view)
    return round(len(table) * own)


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
        end = self._filled + sum(image.shape[0] * image.shape[1] for image in images)
        if end > len(self._pixels):
            wider = self._pixels.new_empty((end + end // 4, 3))
            wider[: self._filled] = self._pixels[: self._filled]
            self._pixels = wider
        room = self._pixels[self._filled : end]
        if room.device.type == "cpu":
            np.concatenate([room.numpy()[:0], *(image.reshape(-1, 3) for image in images)], out=room.numpy())
        else:
            added = RaggedImages.of(images, pinned=room.is_cuda).pixels
            room.copy_(added, non_blocking=True)
        self._filled = end

    def images(self) -> RaggedImages:
        """All images."""
        shapes = np.array(self._shapes, np.int64).reshape(-1, 2)
        return RaggedImages.shaped(self._pixels[: self._filled], shapes)


def choose_cache(size: int, device: torch.device, once: bool = False) -> Cache:
    """Where `size` bytes of images fit; processes on one machine share its memory, and what is on its disk."""
    if device.type == "cuda" and size <= DEVICE_FRACTION * free_memory(device):
        return "device"
    fraction = MEMORY_FRACTION / int(os.environ.get("LOCAL_WORLD_SIZE", "1"))
    if size <= fraction * available_memory():
        return "memory"
    folder = None if once else cache_folder()
    return "disk" if folder is not None and size <= DISK_FRACTION * free_bytes(folder) else "none"


def available_memory() -> int:
    """Bytes of the computer's memory that are free to take."""
    import psutil  # type: ignore[import-untyped]  # comes with accelerate

    return int(psutil.virtual_memory().available)
