"""Images that are the same to the eye, found by perceptual hash."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional as F

THUMBNAIL = 32
"""Side of the images that candidates are compared at."""
DISTANCE = 2
"""Bits of the 64 in which the hashes of two candidates may differ."""
CORRELATION = 0.985
"""Candidates whose thumbnails correlate less are different images with the same coarse outline."""
CONTRAST = 2.0
"""Grey levels by which a cell must be brighter than its neighbour: flat areas must not hash their noise."""
CHUNK, VERIFIED_AT_ONCE = 1024, 16384


def to_grey(pixels: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Brightness of RGB pixels, (..., 3) to (...)."""
    return (pixels @ np.array([0.299, 0.587, 0.114], np.float32)).round().astype(np.uint8)


def hashes(thumbnails: Tensor) -> Tensor:
    """Difference hash: for each of 8 × 8 cells whether its right neighbour is clearly brighter, as ±1, (n, 64)."""
    small = F.interpolate(thumbnails[:, None], (8, 9), mode="bilinear", antialias=True)[:, 0]
    return torch.where(small[:, :, 1:] > small[:, :, :-1] + CONTRAST, 1.0, -1.0).flatten(1)


def near_duplicates(first: NDArray[np.uint8], second: NDArray[np.uint8]) -> NDArray[np.int64]:
    """Pairs (i, j) of near-identical grey thumbnails, i of the first and j of the second array.

    Hashes at most two bits apart make a candidate; it counts if the thumbnails correlate by 0.985, which survives
    recompression, resizing and a change of brightness.
    """
    if not len(first) or not len(second):
        return np.empty((0, 2), np.int64)
    a, b = torch.from_numpy(first).float(), torch.from_numpy(second).float()
    hash_a, hash_b = hashes(a), hashes(b)
    a, b = standardised(a), standardised(b)
    found = [np.empty((0, 2), np.int64)]
    for start in range(0, len(a), CHUNK):
        agreement = hash_a[start : start + CHUNK] @ hash_b.T  # 64 - 2 × differing bits
        candidates = (agreement >= 64 - 2 * DISTANCE).nonzero()
        for part in range(0, len(candidates), VERIFIED_AT_ONCE):
            i, j = candidates[part : part + VERIFIED_AT_ONCE].unbind(1)
            same = (a[start + i] * b[j]).sum(1) >= CORRELATION
            found.append(torch.stack((start + i[same], j[same]), 1).numpy())
    return np.concatenate(found)


def standardised(thumbnails: Tensor) -> Tensor:
    """Each image without its mean and contrast, as a unit vector; a blank one equals every other blank one."""
    flat = thumbnails.flatten(1)
    flat = flat - flat.mean(1, keepdim=True)
    blank = flat.norm(dim=1, keepdim=True) < 1
    return F.normalize(torch.where(blank, torch.ones_like(flat), flat))
