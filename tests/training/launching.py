"""A recipe for several processes, and what their launcher is told."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import yaml

RECIPE: dict[str, Any] = {
    "data": {"name": "glyphs", "characters": 40, "per_class": 6, "validation": 0.2},
    "model": {"backbone": "conv-tiny", "dim": 16},
    "batch": {"classes": 6, "per_class": 3},
    "augment": {"name": "random-crop", "padding": 2},
    # Nothing that makes much of a last bit: no miner's draw, no division by a root of squared gradients, and a rate at
    # which weights that differ by one stay together (at 0.05 they are a hundredth apart after twelve steps).
    "loss": "multi-similarity",
    "optimizer": {"name": "sgd", "lr": 0.01, "momentum": 0.9},
    "epochs": 3,
    "evaluate_every": 1,
    "log_every": 2,
    "checkpoint_every": 4,
}


def write_recipe(folder: Path, **changes: Any) -> Path:
    file = folder / "recipe.yaml"
    file.write_text(yaml.safe_dump({**RECIPE, **changes}), "utf-8")
    return file


def environment() -> dict[str, str]:
    """This process's own, for a launcher: one thread each, and processes that meet on this machine."""
    here = {"GLOO_SOCKET_IFNAME": "lo"} if Path("/sys/class/net/lo").exists() else {}
    return {**os.environ, "OMP_NUM_THREADS": "1", **here}
