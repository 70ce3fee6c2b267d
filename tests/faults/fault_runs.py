"""Trainings for faults to strike: a recipe of every regime, and what must be the same at the end."""

from __future__ import annotations

import copy
import hashlib
import json
from pathlib import Path
from typing import Any

import yaml

from holdfast.training.checkpoint import load_checkpoint
from holdfast.training.logs import read_log

SMALL: dict[str, Any] = {
    "data": {"name": "glyphs", "characters": 30, "per_class": 5, "validation": 0.2},
    "model": {"backbone": "conv-tiny", "dim": 8},
    "batch": {"classes": 4, "per_class": 3},
    "augment": {"name": "random-crop", "padding": 2},
    "loss": {"name": "margin", "miner": "distance"},
    "optimizer": {"name": "adam", "lr": 0.003, "loss_lr": 0.01},
    "ema": 0.9,
    "epochs": 2,
    "evaluate_every": 1,
    "log_every": 2,
    "checkpoint_every": 3,
}
TRIPLET = {"name": "triplet", "miner": "softhard"}
STEPS = {"eps": 0.03, "steps": 2}
REGIMES: dict[str, dict[str, Any]] = {
    "standard": {},
    "adml": {"regime": {"name": "adml", "goal": {"name": "alignment", "reference": "joint"}, "budget": STEPS}},
    "est": {"regime": {"name": "est", "budget": STEPS}, "loss": {"name": "triplet", "miner": "random"}},
    "act": {"regime": {"name": "act", "source": "random", "budget": STEPS}, "loss": TRIPLET},
    "hm": {"regime": {"name": "hm", "source": "softhard", "destination": "lga", "budget": STEPS}, "loss": TRIPLET},
    "mdprop": {
        "regime": {
            "name": "mdprop",
            "distributions": [
                {"name": "stax", "goal": "single-target", "noise": 0.1},
                {"name": "mtax", "goal": {"name": "multi-target", "targets": 3}},
            ],
        }
    },
    "advprop-d": {"regime": {"name": "advprop-d", "noise": 0.1}},
    "free-hm": {
        "regime": {"name": "free-hm", "source": "softhard", "destination": "lga", "replays": 2},
        "loss": TRIPLET,
    },
    "tride": {"regime": {"name": "tride", "budget": STEPS}, "loss": TRIPLET},
}


def small(**changes: Any) -> dict[str, Any]:
    """A recipe that trains in a moment."""
    return {**copy.deepcopy(SMALL), **copy.deepcopy(changes)}


def training(recipe: dict[str, Any], folder: Path, *more: str) -> list[str]:
    """The words that train a recipe in `folder/run`."""
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / "recipe.yaml"
    file.write_text(yaml.safe_dump(recipe))
    return ["train", str(file), "--out", str(folder / "run"), "--device", "cpu", *more]


def ending(run: Path) -> dict[str, str]:
    """Everything a finished run says, as text or digests: weights, checkpoints, figures, log."""
    found = {
        f"{file.relative_to(run)}": hashlib.sha256(file.read_bytes()).hexdigest()
        for part in ("model", "last", "checkpoint")
        for file in sorted((run / part).rglob("*.safetensors"))
    }
    found["metrics"] = json.dumps(json.loads((run / "evaluation.json").read_text())["metrics"])
    for line in read_log(run / "metrics.jsonl"):
        kind = "validation" if "validation" in line else "warning" if "warning" in line else "line"
        key = f"log/{line['step']}/{kind}"
        assert key not in found, f"{key} is written twice"
        found[key] = json.dumps({k: v for k, v in line.items() if k != "images_per_second"}, sort_keys=True)
    # The lock of a process that died at its very end stays: nobody needs to take over a finished run.
    leftovers = [path.name for path in run.rglob(".*") if path.name != ".lock"]
    assert not leftovers, f"{leftovers} are left behind"
    return found


def different(a: dict[str, str], b: dict[str, str]) -> list[str]:
    """The parts in which two ends differ."""
    return sorted(key for key in {*a, *b} if a.get(key) != b.get(key))


def kept(run: Path) -> dict[str, Any]:
    """What is safe on disk in the middle of a run: the newest checkpoint and the lines of the log before it."""
    found = load_checkpoint(run / "checkpoint")
    step = found.step if found else 0
    lines = [line["step"] for line in read_log(run / "metrics.jsonl") if line["step"] <= step] if found else []
    return {"step": step, "lines": len(lines)}


def lost(before: dict[str, Any], after: dict[str, Any]) -> bool:
    """Whether something that was safe is no longer there."""
    return bool(after["step"] < before["step"] or after["lines"] < before["lines"])
