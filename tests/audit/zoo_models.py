"""Honest models, trained once: every regime, convolutions and attention, several numbers formats."""

from __future__ import annotations

import copy
import os
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

import holdfast
from holdfast.data import ImageTable
from holdfast.locks import InUse
from holdfast.models import Embedder

DATA = {"name": "glyphs", "characters": 300, "per_class": 10, "validation": 0}
PLAIN: dict[str, Any] = {
    "data": DATA,
    "model": {"backbone": "conv-tiny", "dim": 64},
    "batch": {"classes": 28, "per_class": 4},
    "augment": {"name": "random-crop", "padding": 2, "flip": False},
    "loss": {"name": "multi-similarity", "miner": "multi-similarity"},
    "optimizer": {"name": "adam", "lr": 0.003, "weight_decay": 0.0004},
    "schedule": {"name": "cosine", "warmup": 0.05},
    "epochs": 20,
}
TRIPLET = {"name": "triplet", "margin": 0.2, "miner": "softhard"}
STEPS = {"eps": "8/255", "step": "4/255", "steps": 2}
TARGETED = {"eps": 0.03, "units": "normalized", "steps": 1, "start": "uniform", "start_radius": 0.0015}
HM = {"name": "hm", "source": "softhard", "destination": "lga", "budget": STEPS | {"step": "2/255", "steps": 4}}

CHANGES: dict[str, dict[str, Any]] = {
    "plain": {},
    "plain, seed 1": {"seed": 1},
    "wide": {"model": {"backbone": "conv-small", "dim": 64}},
    "triplet": {"loss": TRIPLET},
    "attention": {
        "model": {"backbone": "zoo_attention:build", "dim": 64, "size": 32, "canvas": 32},
        "optimizer": {"name": "adam", "lr": 0.002},
        "epochs": 40,
    },
    "HM": {"loss": TRIPLET, "regime": HM, "epochs": 16},
    "HM, seed 1": {"loss": TRIPLET, "regime": HM, "seed": 1, "epochs": 16},
    "HM and ICS": {"loss": TRIPLET, "regime": HM | {"ics": 0.5}, "epochs": 16},
    "ACT": {"loss": TRIPLET, "regime": {"name": "act", "source": "random", "budget": STEPS}},
    "EST": {"loss": TRIPLET | {"miner": "random"}, "regime": {"name": "est", "budget": STEPS}},
    "AT": {"regime": {"name": "at", "goal": "single-target", "budget": TARGETED}},
    "ADML": {
        "regime": {
            "name": "adml",
            "goal": {"name": "alignment", "reference": "joint"},
            "weight": 0.1,
            "budget": {"eps": 0.0314, "step": 0.014, "steps": 3},
        }
    },
    "MDProp": {
        "regime": {
            "name": "mdprop",
            "distributions": [
                {"name": "mtax", "goal": {"name": "multi-target", "targets": 3}, "budget": TARGETED},
            ],
        }
    },
    "free HM": {
        "loss": TRIPLET,
        "regime": {"name": "free-hm", "source": "softhard", "destination": "lga", "replays": 4},
        "epochs": 3,
    },
}
"""What each trained model changes of `PLAIN`. Regimes go on from the plain one for a few epochs."""


def recipe(name: str, start: Path) -> dict[str, Any]:
    """Of a trained model; `start` holds those that others begin with."""
    changes = copy.deepcopy(CHANGES[name])
    if "regime" in changes or "loss" in changes:
        changes = {"init": str(train("plain", start)), "epochs": 6} | changes
    return PLAIN | changes


def train(name: str, folder: Path) -> Path:
    """The run of a trained model, which is made once however many processes ask."""
    out = folder / name.replace(", ", "-").replace(" ", "-")
    if (out / "evaluation.json").is_file():
        return out
    while True:
        try:
            return holdfast.train(recipe(name, folder), out=out).folder
        except InUse:
            time.sleep(0.5)


def load(name: str, folder: Path) -> Embedder:
    """A trained model."""
    return Embedder.from_pretrained(str(train(name, folder) / "model"), trust_code="zoo_attention:build")


class Trained(Mapping[str, Embedder]):
    """Trained models by name; each is made when first asked for.

    Args:
        folder: of their runs.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def __getitem__(self, name: str) -> Embedder:
        return load(name, self.folder)

    def __iter__(self) -> Any:
        return iter(CHANGES)

    def __len__(self) -> int:
        return len(CHANGES)


class Seen(nn.Module):
    """A network behind an honest change of images, through which gradients pass as they are."""

    def __init__(self, network: nn.Module, before: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.network, self.before = network, before

    def forward(self, images: Tensor) -> Tensor:
        vectors: Tensor = self.network(self.before(images))
        return vectors


class Scaled(nn.Module):
    """A network whose vectors have lengths of their own."""

    def __init__(self, network: Embedder) -> None:
        super().__init__()
        self.network = network

    def forward(self, images: Tensor) -> Tensor:
        vectors: Tensor = self.network.head(self.network.features(images))
        return 7 * vectors


class Half(nn.Module):
    """A network with weights in half precision, computed in float32."""

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = copy.deepcopy(network).half().float()

    def forward(self, images: Tensor) -> Tensor:
        vectors: Tensor = self.network(images)
        return vectors


class Int8(nn.Module):
    """A network with 8-bit weights and activations, trained and attacked through straight gradients, as is usual."""

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = copy.deepcopy(network)
        for module in self.network.modules():
            if isinstance(module, (nn.Conv2d, nn.Linear)):
                with torch.no_grad():
                    step = module.weight.flatten(1).abs().amax(1).view(-1, *[1] * (module.weight.ndim - 1)) / 127
                    module.weight.copy_((module.weight / step).round() * step)
                module.register_forward_pre_hook(self._rounded)

    @staticmethod
    def _rounded(module: nn.Module, inputs: tuple[Tensor]) -> tuple[Tensor]:
        maps = inputs[0].detach()
        step = (maps.flatten(1).abs().amax(1) / 127).clamp_min(1e-8).view(-1, *[1] * (maps.ndim - 1))
        return (inputs[0] + ((maps / step).round() * step - maps),)

    def forward(self, images: Tensor) -> Tensor:
        vectors: Tensor = self.network(images)
        return vectors


def _soft(images: Tensor) -> Tensor:
    return F.avg_pool2d(F.pad(images, [1] * 4, mode="reflect"), 3, 1)


def _eight_bit(images: Tensor) -> Tensor:
    return images + ((255 * images).round() / 255 - images).detach()


HONEST: dict[str, Callable[[Trained], nn.Module]] = {
    **{name: lambda models, name=name: models[name] for name in CHANGES},  # type: ignore[misc]
    "plain, vectors of any length": lambda models: Scaled(models["plain"]).eval(),
    "HM, vectors of any length": lambda models: Scaled(models["HM"]).eval(),
    "plain, half precision": lambda models: Half(models["plain"]).eval(),
    "HM, half precision": lambda models: Half(models["HM"]).eval(),
    "plain, 8 bit": lambda models: Int8(models["plain"]).eval(),
    "HM, 8 bit": lambda models: Int8(models["HM"]).eval(),
    "plain behind a blur": lambda models: Seen(models["plain"], _soft).eval(),
    "ACT behind a blur": lambda models: Seen(models["ACT"], _soft).eval(),
    "wide, 8-bit pixels, straight gradient": lambda models: Seen(models["wide"], _eight_bit).eval(),
}


def images() -> ImageTable:
    """Sixty unseen characters, ten images each."""
    part = holdfast.data.load(DATA).split("test")
    return part.subset(np.isin(part.labels, np.unique(part.labels)[:60]))


def shared_folder(base: Path) -> Path:
    """Where all processes of a session find the runs of the others."""
    return (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "zoo"
