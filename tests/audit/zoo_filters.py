"""Filters that take the edge off an attack, none of which passes a gradient on its own."""

from __future__ import annotations

import io
from typing import Any

import numpy as np
import torch
from PIL import Image
from torch import Tensor
from torch.nn import functional as F
from zoo_disguises import Change

from holdfast import seeds


def jpeg(quality: int) -> Change:
    """Through Pillow: bytes and back."""

    def stored(images: Tensor) -> Tensor:
        found = []
        for image in images.detach().clamp(0, 1).mul(255).round().byte().permute(0, 2, 3, 1).cpu().numpy():
            file = io.BytesIO()
            Image.fromarray(image).save(file, "JPEG", quality=quality)
            found.append(torch.from_numpy(np.array(Image.open(file))))
        return torch.stack(found).permute(0, 3, 1, 2).to(images) / 255

    return stored


def cosine_blocks(step: float, side: int = 8) -> Change:
    """What JPEG does, written as torch operations: rounded cosine coefficients of blocks."""
    along = torch.arange(side) + 0.5
    basis = torch.cos(torch.pi / side * along[None, :] * torch.arange(side)[:, None]) * (2 / side) ** 0.5
    basis[0] /= 2**0.5

    def rounded(images: Tensor) -> Tensor:
        own = basis.to(images)
        blocks = images.unfold(2, side, side).unfold(3, side, side)
        found = ((own @ blocks @ own.T) / step).round() * step
        back = own.T @ found @ own
        return back.permute(0, 1, 2, 4, 3, 5).reshape(images.shape)

    return rounded


def median(images: Tensor) -> Tensor:
    """3×3, rounded to 64 levels."""
    return (_neighbours(images).median(2).values * 64).round() / 64


def bilateral(spread: float) -> Change:
    """3×3, with weights by how alike pixels are."""

    def smooth(images: Tensor) -> Tensor:
        around = _neighbours(images)
        weight = torch.exp(-(((around - images[:, :, None]) / spread) ** 2))
        return (weight * around).sum(2) / weight.sum(2)

    return smooth


def total_variation(steps: int, weight: float) -> Change:
    """The image of least variation near the given one, found by an optimiser of its own."""

    def denoised(images: Tensor) -> Tensor:
        with torch.enable_grad():
            found = images.detach().clone().requires_grad_()
            for _ in range(steps):
                across, down = found.diff(dim=3).abs().sum(), found.diff(dim=2).abs().sum()
                cost = (found - images.detach()).square().sum() / 2 + weight * (across + down)
                found = (found - 0.2 * torch.autograd.grad(cost, found)[0]).detach().requires_grad_()
        return found.detach()

    return denoised


class PatchBook:
    """Snaps each 2×2 patch of an image to the nearest of some that were drawn.

    Args:
        count: of patches in the book.
    """

    def __init__(self, count: int) -> None:
        generator = seeds.generator(0, "patches")
        grey = torch.rand(count, 1, generator=generator).expand(-1, 12)
        edges = torch.rand(count, 1, 4, generator=generator).round().expand(-1, 3, -1).flatten(1)
        self.book = torch.cat([grey, edges, (grey + edges) / 2])

    @torch.no_grad()
    def __call__(self, images: Tensor) -> Tensor:
        columns = F.unfold(images, 2, stride=2).transpose(1, 2)
        book = self.book.to(images)
        nearest = book[torch.cdist(columns, book).argmin(2)]
        return F.fold(nearest.transpose(1, 2), images.shape[-2:], 2, stride=2)


class Codebook:
    """Product quantisation: each part of a vector becomes the nearest of some drawn ones.

    Args:
        parts: into which a vector is cut.
        count: of codes of each part.
    """

    def __init__(self, parts: int, count: int) -> None:
        self.parts, self.count = parts, count

    @torch.no_grad()
    def __call__(self, vectors: Tensor) -> Tensor:
        length = vectors.shape[1] // self.parts
        codes = torch.randn(self.count, length, generator=seeds.generator(0, "codes")).to(vectors)
        codes = codes / vectors.shape[1] ** 0.5
        cut = vectors.view(-1, length)
        return codes[torch.cdist(cut, codes).argmin(1)].view_as(vectors)


def rounded_frequencies(step: float) -> Change:
    """Fourier coefficients of the whole image, rounded."""

    def rounded(images: Tensor) -> Tensor:
        found = torch.fft.rfft2(images, norm="ortho")
        kept = torch.complex((found.real / step).round() * step, (found.imag / step).round() * step)
        return torch.fft.irfft2(kept, s=images.shape[-2:], norm="ortho")

    return rounded


def dithered(count: int) -> Change:
    """Few levels, with the ordered pattern of Bayer in place of rounding."""
    four = torch.tensor([[0, 8, 2, 10], [12, 4, 14, 6], [3, 11, 1, 9], [15, 7, 13, 5]]) / 16

    def dither(images: Tensor) -> Tensor:
        height, width = images.shape[-2:]
        pattern = four.to(images).repeat(height // 4 + 1, width // 4 + 1)[:height, :width]
        return (images * count + pattern).floor() / count

    return dither


def looked_up(images: Tensor) -> Tensor:
    """A table of 32 tones, as palettes have it."""
    table = torch.linspace(0, 1, 32, device=images.device)
    return table[(images.clamp(0, 1) * 31).round().long()]


def _neighbours(images: Tensor) -> Any:
    """Each pixel's 3×3 surroundings, (B, C, 9, H, W)."""
    padded = F.pad(images, [1] * 4, mode="reflect")
    height, width = images.shape[-2:]
    return torch.stack([padded[..., i : i + height, j : j + width] for i in range(3) for j in range(3)], 2)
