"""The network and the images on which the authors' code of HM and ERS was run.

Drawn from NumPy's frozen legacy generator with nothing but exact arithmetic, so that they are the same everywhere.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor, nn

CLASSES, PER_CLASS, SIZE = 16, 20, 28
COUNT = CLASSES * PER_CLASS


class Net(nn.Module):
    """Two convolutions with BatchNorm on the first channel, smooth, so that no gradient is exactly zero."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv2d(1, 4, 5, stride=2)
        self.norm = nn.BatchNorm2d(4)
        self.second = nn.Conv2d(4, 8, 3, stride=2)
        self.head = nn.Linear(8 * 5 * 5, 16)

    def forward(self, x: Tensor) -> Tensor:
        hidden = torch.tanh(self.norm(self.first(x[:, :1])))
        return self.head(torch.tanh(self.second(hidden)).flatten(1))


def network() -> Net:
    """In float64 and eval mode, with weights and running statistics that are not those of a fresh network."""
    random = np.random.RandomState(7)
    net = Net().double().eval()
    with torch.no_grad():
        for tensor in net.state_dict().values():
            if tensor.is_floating_point():
                fan = max(1, tensor[0].numel()) if tensor.ndim > 1 else 4
                tensor.copy_(torch.from_numpy(random.randint(-1000, 1001, tuple(tensor.shape)) / 1000 * 4 / fan**0.5))
        net.norm.weight.fill_(1.0)
        net.norm.running_var.fill_(0.25)
    return net


def pictures(shared: int = 8) -> tuple[Tensor, Tensor]:
    """Images in whole 255ths of shape (320, 1, 28, 28), `shared` tenths of each its class's, and labels."""
    random = np.random.RandomState(11)
    patterns = random.randint(0, 256, (CLASSES, 1, SIZE, SIZE)).repeat(PER_CLASS, 0)
    noise = random.randint(0, 256, (COUNT, 1, SIZE, SIZE))
    mixed = (shared * patterns + (10 - shared) * noise) // 10
    return torch.from_numpy(mixed).double() / 255, torch.arange(COUNT) // PER_CLASS
