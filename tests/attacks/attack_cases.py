"""A small model that has learnt something, and images to attack it with."""

from __future__ import annotations

import functools
from typing import Any

import torch
from torch import Tensor, nn

from holdfast import attacks
from holdfast.attacks import BoundGoal, References

CLASSES, EACH = 6, 4
ARGUMENTS: dict[str, dict[str, Any]] = {
    "sum": {"goals": ["tma", "es"]},
    "worst-of": {"goals": ["single-target", "gtm"], "weights": [1.0, 0.9]},
    "multi-target": {"targets": 3},
}
"""What a goal cannot be built without, or is too large by default for these six classes."""

VARIANTS: list[tuple[str, dict[str, Any]]] = [
    *((name, ARGUMENTS.get(name, {})) for name in attacks.names()),
    *((name, {"reference": "joint"}) for name in ("alignment", "uniformity", "triplet", "alignment-uniformity")),
    ("ltm", {"published": True}),
    ("gtm", {"published": True}),
    ("unadversarial", {"targets": 2}),
    ("hardness", {"destination": 0.1}),
]


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def pictures(seed: int = 0) -> tuple[Tensor, Tensor]:
    """Noisy copies of a random picture per class, 8 × 8."""
    draw = seeded(seed)
    labels = torch.arange(CLASSES).repeat_interleave(EACH)
    base = torch.rand(CLASSES, 3, 8, 8, generator=draw)
    noise = torch.rand(len(labels), 3, 8, 8, generator=draw)
    return 0.8 * base[labels] + 0.2 * noise, labels


@functools.cache
def _weights() -> dict[str, Tensor]:
    torch.manual_seed(0)
    model = _network()
    images, labels = pictures()
    optimizer = torch.optim.Adam(model.parameters(), 0.01)
    for _ in range(30):
        z = nn.functional.normalize(model(images), dim=1)
        same = labels[:, None] == labels[None, :]
        loss = nn.functional.binary_cross_entropy_with_logits(4 * z @ z.T, same.float())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return model.state_dict()


def _network() -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(3, 8, 3, stride=2, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.Flatten(), nn.Linear(128, 6)
    )


def network() -> nn.Sequential:
    """Trained, in training mode; its vectors do not have unit length."""
    model = _network()
    model.load_state_dict(_weights())
    return model.train()


@torch.no_grad()
def references(model: nn.Module, dtype: torch.dtype = torch.float32) -> References:
    images, labels = pictures()
    was = model.training
    vectors = model.eval()(images.to(dtype))
    model.train(was)
    return References(vectors, labels)


def bound(name: str, arguments: dict[str, Any], known: References, rows: Tensor, seed: int = 0) -> BoundGoal:
    return attacks.build(name, **arguments).bind(known, rows, seeded(seed))
