"""What a JPEG file makes of images, batched on any device: encoder and decoder, without the bytes between."""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.nn import functional as F

BLOCK = 8
LUMA = """
    16 11 10 16 24  40  51  61   12 12 14 19  26  58  60  55   14 13 16 24 40 57 69 56   14 17 22 29 51 87 80 62
    18 22 37 56 68 109 103  77   24 35 55 64  81 104 113  92
    49 64 78 87 103 121 120 101   72 92 95 98 112 100 103  99
"""
CHROMA = """
    17 18 24 47 99 99 99 99   18 21 26 66 99 99 99 99   24 26 56 99 99 99 99 99   47 66 99 99 99 99 99 99
    99 99 99 99 99 99 99 99   99 99 99 99 99 99 99 99   99 99 99 99 99 99 99 99   99 99 99 99 99 99 99 99
"""
"""Quantisation at quality 50: the tables of the standard (ITU-T T.81, Annex K), which nearly every encoder takes."""
TO_YCBCR = (0.299, 0.587, 0.114), (-0.168736, -0.331264, 0.5), (0.5, -0.418688, -0.081312)
TO_RGB = (1.0, 0.0, 1.402), (1.0, -0.344136, -0.714136), (1.0, 1.772, 0.0)


@torch.no_grad()
def jpeg(images: Tensor, quality: float) -> Tensor:
    """Images as they come back from a JPEG file: 8 bits, chroma at half the resolution (4:2:0), 8×8 DCT, quantised.

    On average within half a level (of 255) of what libjpeg, so Pillow, writes and reads back; its integer arithmetic
    sometimes rounds a coefficient to the other side.

    Args:
        images: RGB in [0, 1], of shape (B, 3, H, W).
        quality: from 1 to 100, rounded.
    """
    height, width = images.shape[-2:]
    levels = _whole((images.float() * 255).round(), 2, 2 * BLOCK)
    shifted = _mixed(levels, TO_YCBCR) + levels.new_tensor([0, 128, 128]).view(-1, 1, 1)
    luma, chroma = torch.split(_rounded(shifted), [1, 2], 1)
    fours = F.avg_pool2d(chroma, 2) * 4
    ties = 1 + torch.arange(fours.shape[-1], device=images.device) % 2  # libjpeg rounds them down and up in turn
    halves = ((fours + ties) / 4).floor()
    luma = _coded(_whole(luma, BLOCK, BLOCK), _table(LUMA, quality, images.device))
    halves = _coded(_whole(halves, BLOCK, BLOCK), _table(CHROMA, quality, images.device))
    halves = halves[..., : -(-height // 2), : -(-width // 2)]  # what lies beyond the image is not read back
    wide = _rounded(F.interpolate(halves, scale_factor=2, mode="bilinear", align_corners=False))
    wide = wide[..., :height, :width] - 128
    back = _mixed(torch.cat([luma[..., :height, :width], wide], 1), TO_RGB)
    return (_rounded(back).clamp(0, 255) / 255).to(images.dtype)


def _whole(planes: Tensor, rows: int, columns: int) -> Tensor:
    """Planes that go on as they end, up to a multiple of so many rows and columns."""
    height, width = planes.shape[-2:]
    return F.pad(planes, (0, -width % columns, 0, -height % rows), mode="replicate")


def _mixed(planes: Tensor, rows: tuple[tuple[float, ...], ...]) -> Tensor:
    """New colour planes, each a sum of the old ones."""
    one, two, three = planes.unbind(1)
    return torch.stack([a * one + b * two + c * three for a, b, c in rows], 1)


def _coded(planes: Tensor, table: Tensor) -> Tensor:
    """Planes of levels after DCT, quantisation and back."""
    height, width = planes.shape[-2:]
    basis = _basis(planes.device)
    blocks = planes.reshape(*planes.shape[:-2], height // BLOCK, BLOCK, width // BLOCK, BLOCK).transpose(-2, -3) - 128
    steps = basis @ blocks @ basis.T / table
    coefficients = _rounded(steps.abs()) * steps.sign() * table
    levels = _rounded(basis.T @ coefficients @ basis + 128).clamp(0, 255)
    return levels.transpose(-2, -3).reshape(planes.shape)


def _rounded(values: Tensor) -> Tensor:
    """Whole numbers, halves up: as integers are divided; levels make many exact halves, and floats only nearly so."""
    return (values + (0.5 + 1e-4)).floor()


def _basis(device: torch.device) -> Tensor:
    """The orthonormal cosines, one per row."""
    frequency, place = torch.arange(BLOCK, device=device)[:, None], torch.arange(BLOCK, device=device)[None, :]
    cosines = torch.cos(math.pi / BLOCK * frequency * (place + 0.5)) * math.sqrt(2 / BLOCK)
    return torch.cat([cosines[:1] / math.sqrt(2), cosines[1:]])


def _table(numbers: str, quality: float, device: torch.device) -> Tensor:
    """Quantisation at a quality, as libjpeg scales it."""
    quality = min(max(round(quality), 1), 100)
    percent = 5000 // quality if quality < 50 else 200 - 2 * quality
    steps = torch.tensor([int(number) for number in numbers.split()], device=device)
    return ((steps * percent + 50) // 100).clamp(1, 255).view(BLOCK, BLOCK).float()
