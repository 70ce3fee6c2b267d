"""Starting holdfast in several processes, as a launcher does."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import yaml
from several import free_port

RECIPE: dict[str, Any] = {
    "data": {"name": "glyphs", "characters": 40, "per_class": 6, "validation": 0.2},
    "model": {"backbone": "conv-tiny", "dim": 16},
    "batch": {"classes": 6, "per_class": 3},
    "augment": {"name": "random-crop", "padding": 2},
    # Nothing that makes much of a last bit: no miner's draw, no division by a root of squared gradients.
    "loss": "multi-similarity",
    "optimizer": {"name": "sgd", "lr": 0.05, "momentum": 0.9},
    "epochs": 3,
    "evaluate_every": 1,
    "log_every": 2,
    "checkpoint_every": 4,
}


def write_recipe(folder: Path, **changes: Any) -> Path:
    file = folder / "recipe.yaml"
    file.write_text(yaml.safe_dump({**RECIPE, **changes}), "utf-8")
    return file


def environment(**more: str) -> dict[str, str]:
    """This process's own, for one thread each and processes that meet on this machine."""
    here = {"GLOO_SOCKET_IFNAME": "lo"} if Path("/sys/class/net/lo").exists() else {}
    return {**os.environ, "OMP_NUM_THREADS": "1", **here, **more}


def start(rank: int, world: int, port: int, *arguments: str) -> subprocess.Popen[str]:
    """One process of a launch, without a launcher that would stop it when another dies."""
    told = {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": world, "LOCAL_WORLD_SIZE": world, "MASTER_PORT": port}
    return subprocess.Popen(
        [sys.executable, "-m", "holdfast.cli", *arguments],
        env=environment(MASTER_ADDR="127.0.0.1", **{name: str(value) for name, value in told.items()}),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def together(world: int, *arguments: str) -> list[tuple[int, str, str]]:
    """Exit code, output and messages of every process of a launch."""
    port = free_port()
    started = [start(rank, world, port, *arguments) for rank in range(world)]
    return [ended(process) for process in started]


def ended(process: subprocess.Popen[str], seconds: float = 300) -> tuple[int, str, str]:
    """Exit code, output and messages of a process, once it has ended by itself."""
    try:
        out, messages = process.communicate(timeout=seconds)
    finally:
        process.kill()
    return process.returncode, out, messages
