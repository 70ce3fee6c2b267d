"""Gradients that are estimated: means over noise and finite differences."""

from __future__ import annotations

import torch
from torch import Generator, Tensor, nn
from torch.nn import functional as F

from holdfast.attacks.forward import OneWay, count_pass
from holdfast.mining.draw import sample
from holdfast.sphere import precise


class Smoothed(nn.Module):
    """The mean of a model's vectors over Gaussian noise on its images: a surface without its small bumps.

    Args:
        model: maps images in [0, 1] to vectors.
        noise: standard deviation, in pixel units.
        passes: images that are drawn for each.
        generator: source of every draw.

    Reference: Athalye et al., ICML 2018 (expectation over transformation).
    """

    def __init__(self, model: nn.Module, noise: float, passes: int, generator: Generator) -> None:
        super().__init__()
        self.model = model
        self.noise, self.passes = noise, passes
        self.generator = generator
        self.training = model.training  # a new module starts in training mode and would put the model there too

    def forward(self, images: Tensor) -> Tensor:
        """The mean direction."""
        vectors = [self._vectors(images) for _ in range(self.passes)]
        for _ in vectors[1:]:
            count_pass(images)  # whoever called counts one
        return torch.stack(vectors).mean(0)

    def _vectors(self, images: Tensor) -> Tensor:
        noise = self.noise * sample(torch.randn, images.shape, device=images.device, generator=self.generator)
        return F.normalize(precise(self.model(images + noise)), dim=1)


class FiniteDifferences(OneWay):
    """A model with its values, and a gradient from the values of images nearby: there is nothing to mask.

    f(x) + sum_k (f(x + d_k) - f(x - d_k)) / 2 <x' - x, d_k> / |d_k|^2, with coarse patterns of signs as d_k, drawn anew
    at every pass.

    Args:
        model: maps images in [0, 1] to vectors; it need not be differentiable.
        length: of a pattern, as the change of each pixel.
        directions: patterns per pass; each costs two passes forward.
        cells: of a pattern, along either side.
        generator: source of every draw.

    Reference: Uesato et al., ICML 2018 (SPSA).
    """

    def __init__(self, model: nn.Module, length: float, directions: int, generator: Generator, cells: int = 8) -> None:
        super().__init__()
        self.model = model
        self.length, self.directions, self.cells = length, directions, cells
        self.generator = generator
        self.training = model.training

    def forward(self, images: Tensor) -> Tensor:
        """The model's vectors."""
        with torch.no_grad():
            vectors = precise(self.model(images))
        if not images.requires_grad:
            return vectors
        found, change = vectors, images - images.detach()
        for _ in range(self.directions):
            with torch.no_grad():
                pattern = self._draw(images)
                slope = (self._vectors(images + pattern) - self._vectors(images - pattern)) / 2
            along = (change * pattern).flatten(1).sum(1) / pattern.square().flatten(1).sum(1)
            found = found + along[:, None] * slope
        return found

    def _vectors(self, images: Tensor) -> Tensor:
        count_pass(images)
        return precise(self.model(images))

    def _draw(self, images: Tensor) -> Tensor:
        shape = (len(images), images.shape[1], self.cells, self.cells)
        signs = sample(torch.randint, 2, shape, device=images.device, generator=self.generator).to(images) * 2 - 1
        return self.length * F.interpolate(signs, images.shape[2:], mode="nearest")
