"""A line of text and a sticker on images, without a font file: the same on every machine."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F

LETTERS = {
    "A": "01110 10001 10001 11111 10001 10001 10001",
    "B": "11110 10001 10001 11110 10001 10001 11110",
    "C": "01110 10001 10000 10000 10000 10001 01110",
    "D": "11110 10001 10001 10001 10001 10001 11110",
    "E": "11111 10000 10000 11110 10000 10000 11111",
    "F": "11111 10000 10000 11110 10000 10000 10000",
    "H": "10001 10001 10001 11111 10001 10001 10001",
    "I": "01110 00100 00100 00100 00100 00100 01110",
    "K": "10001 10010 10100 11000 10100 10010 10001",
    "L": "10000 10000 10000 10000 10000 10000 11111",
    "N": "10001 11001 10101 10011 10001 10001 10001",
    "O": "01110 10001 10001 10001 10001 10001 01110",
    "P": "11110 10001 10001 11110 10000 10000 10000",
    "R": "11110 10001 10001 11110 10100 10010 10001",
    "S": "01111 10000 10000 01110 00001 00001 11110",
    "T": "11111 00100 00100 00100 00100 00100 00100",
}
"""Rows of each letter from the top, five dots wide."""
DOTS = 7
STICKER = 2.5
"""Its diameter, in heights of a line of text."""


def overlay(images: Tensor, height: float, drawn: Tensor) -> Tensor:
    """A line of drawn letters, white or black, and a round sticker of one colour, both anywhere in the image.

    Args:
        images: in [0, 1], of shape (B, C, H, W).
        height: of the line, as a fraction of the image's; it is as wide as the image.
        drawn: 48 numbers in [0, 1) for each image.
    """
    colour = drawn[:, 1:4].to(images).view(-1, 3, 1, 1)[:, : images.shape[1]]
    ink = (drawn[:, 0] < 0.5).to(images).view(-1, 1, 1, 1)
    covered = torch.lerp(images, colour.expand_as(images), _disc(images, STICKER * height, drawn[:, 4:6]))
    return torch.lerp(covered, ink.expand_as(images), _line(images, height, drawn[:, 6], drawn[:, 7:]))


def _disc(images: Tensor, diameter: float, centres: Tensor) -> Tensor:
    """How much of each pixel a disc covers that lies inside the image; of shape (B, 1, H, W)."""
    height, width = images.shape[-2:]
    radius = diameter * min(height, width) / 2
    down, across = (
        (torch.arange(side, device=images.device) + 0.5)[None] - (radius + (side - 2 * radius) * place)[:, None]
        for side, place in zip((height, width), centres.unbind(1), strict=True)
    )
    away = (down[:, :, None] ** 2 + across[:, None, :] ** 2).sqrt()
    return (radius + 0.5 - away).clamp(0, 1)[:, None].to(images)


def _line(images: Tensor, height: float, place: Tensor, letters: Tensor) -> Tensor:
    """How much of each pixel a line of text covers; of shape (B, 1, H, W)."""
    tall, wide = images.shape[-2:]
    rows = max(1, round(height * tall))
    count = min(letters.shape[1], max(1, round(DOTS / 6 / height)))
    shapes = torch.tensor([[[int(dot) for dot in f"{row}0"] for row in text.split()] for text in LETTERS.values()])
    chosen = shapes.to(images)[(letters[:, :count] * len(LETTERS)).long()]  # (B, letters, 7, 6)
    dots = chosen.transpose(1, 2).reshape(len(images), 1, DOTS, -1)
    text = F.interpolate(dots, size=(rows, wide), mode="area")[:, 0]
    mask = torch.zeros(len(images), tall, wide, dtype=images.dtype, device=images.device)
    top = (place * (tall - rows + 1)).long()
    lines = top[:, None] + torch.arange(rows, device=images.device)
    mask[torch.arange(len(images), device=images.device)[:, None], lines] = text
    return mask[:, None]
