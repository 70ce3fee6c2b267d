"""What tests of regimes share: a tiny double-precision embedder in a real training context."""

from __future__ import annotations

import torch
from accelerate import Accelerator
from torch import Tensor, nn
from torch.nn import functional as F

from holdfast.losses import Criterion
from holdfast.losses import build as build_loss
from holdfast.models import Embedder
from holdfast.models.bank import SetStart
from holdfast.regimes import Batch, Regime, StepContext

CLASSES, PER_CLASS, SIZE, FEATURES = 4, 3, 6, 5


class TinyNet(nn.Module):
    """A convolution, BatchNorm and a linear layer; smooth, so that gradients are never exactly zero."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 4, 3)
        self.bn = nn.BatchNorm2d(4)
        self.out = nn.Linear(4 * (SIZE - 2) ** 2, FEATURES)

    def forward(self, x: Tensor) -> Tensor:
        return self.out(torch.tanh(self.bn(self.conv(x))).flatten(1))


def embedder(batchnorm: str = "train", seed: int = 0, sets: tuple[SetStart, ...] = ()) -> Embedder:
    """A tiny embedder in float64 and training mode, with some running statistics behind it."""
    torch.manual_seed(seed)
    model = Embedder.wrap(TinyNet(), size=SIZE, canvas=SIZE).double()
    model.batchnorm = batchnorm  # type: ignore[assignment]
    model.train()
    with torch.no_grad():
        for _ in range(3):
            model(torch.rand(16, 3, SIZE, SIZE, dtype=torch.float64))
    for start in sets:
        model.bank.add(model.backbone, start)
    return model.train()


def batch(seed: int = 0, classes: int = CLASSES, per_class: int = PER_CLASS) -> Batch:
    """Images in [0, 1], classes side by side."""
    generator = torch.Generator().manual_seed(seed)
    images = torch.rand(classes * per_class, 3, SIZE, SIZE, dtype=torch.float64, generator=generator)
    return Batch(images, torch.arange(classes).repeat_interleave(per_class))


def context(model: Embedder, loss: str = "triplet", seed: int = 0, step: int = 3, **arguments: object) -> StepContext:
    """The real step context around a model."""
    criterion = Criterion(build_loss(loss, **arguments)).double()
    made = StepContext(model, criterion, Accelerator(cpu=True), seed)
    made.start(step)
    return made


def gradients(model: nn.Module, loss: Tensor) -> dict[str, Tensor]:
    """Gradient by parameter name; zero where a parameter has no part in the loss."""
    named = dict(model.named_parameters())
    found = torch.autograd.grad(loss, list(named.values()), allow_unused=True, retain_graph=True)
    return {n: torch.zeros_like(p) if g is None else g for (n, p), g in zip(named.items(), found, strict=True)}


def unit(model: Embedder, images: Tensor) -> Tensor:
    """Unit vectors of images in whatever mode the model is in, for oracles."""
    return F.normalize(model.backbone((images - model.mean) / model.std), dim=1)


def train_a_few(regime: Regime, made: StepContext, model: Embedder, steps: int = 3) -> list[float]:
    """Losses of a few plain SGD steps."""
    losses = []
    for step in range(steps):
        made.start(step)
        result = regime.step(made, batch(step))
        model.zero_grad()
        result.loss.backward()
        with torch.no_grad():
            for parameter in model.parameters():
                if parameter.grad is not None:
                    parameter -= 0.01 * parameter.grad
        losses.append(float(result.loss.detach()))
    return losses
