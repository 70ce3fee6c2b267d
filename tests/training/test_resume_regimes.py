"""Regimes with sets, memory or turns: an interrupted run ends like an uninterrupted one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from interruption import break_off
from regime_recipes import HM, MDPROP, TRIDE
from safetensors.torch import load_file

import holdfast
from holdfast.training.checkpoint import load_checkpoint
from holdfast.training.logs import read_log

CASES = {
    "mdprop": MDPROP,
    "mdprop-released-ema": {
        "regime": {"name": "mdprop", "variant": "released", "statistics": "keep"},
        "ema": 0.9,
        "loss": "multi-similarity",
    },
    "mdprop-groups": {**MDPROP, "mining_groups": 2, "batch": {"classes": 8, "per_class": 2}},
    "advprop-d": {"regime": {"name": "advprop-d", "noise": 0.1}},
    "memory": {
        "regime": {"name": "standard"},
        "loss": {"name": "multi-similarity", "miner": "multi-similarity", "memory": 40},
    },
    "hm": HM,
    "hm-groups": {**HM, "mining_groups": 2, "batch": {"classes": 8, "per_class": 2}},
    "tride": {**TRIDE, "checkpoint_every": 5},  # the next turn is that of the anchors
    "tride-accumulate": {**TRIDE, "accumulate": 2, "mining_groups": 2, "batch": {"classes": 8, "per_class": 2}},
    "hm-pairs": {**HM, "mining_groups": 2, "batch": {"classes": 12, "per_class": 2, "sampler": "pairs"}},
}


def packages(folder: Path) -> dict[str, torch.Tensor]:
    """Every tensor of both packaged models, auxiliary sets included."""
    return {
        f"{file.relative_to(folder)}:{name}": tensor
        for which in ("model", "last")
        for file in sorted((folder / which).glob("*.safetensors"))
        for name, tensor in load_file(file).items()
    }


def different(a: dict[str, torch.Tensor], b: dict[str, torch.Tensor]) -> list[str]:
    assert a.keys() == b.keys()
    return [name for name in a if not torch.equal(a[name], b[name])]


@pytest.mark.parametrize("change", CASES.values(), ids=CASES.keys())
def test_an_interrupted_run_of_a_regime_ends_like_an_uninterrupted_one(
    tiny: dict[str, Any], change: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recipe = {**tiny, **change, "epochs": 2}
    whole = holdfast.train(recipe, out=tmp_path / "whole")
    found = break_off(recipe, tmp_path / "cut", 7, monkeypatch)
    every = recipe["checkpoint_every"]
    assert found.step == 7 // every * every
    remembers = change["regime"]["name"] == "hm"
    assert len(found.state["regime"]) == (change.get("mining_groups", 1) if remembers else 0)
    resumed = holdfast.train(recipe, out=tmp_path / "cut")
    assert different(packages(whole.folder), packages(resumed.folder)) == []
    ends = [load_checkpoint(folder / "checkpoint") for folder in (whole.folder, resumed.folder)]
    assert different(ends[0].tensors, ends[1].tensors) == []  # type: ignore[union-attr]
    assert ends[0].state == ends[1].state  # type: ignore[union-attr]
    assert whole.evaluation["metrics"] == resumed.evaluation["metrics"]
    logs = [read_log(folder / "metrics.jsonl") for folder in (whole.folder, resumed.folder)]
    losses = [{line["step"]: line["loss"] for line in log if "loss" in line} for log in logs]
    assert losses[0] == losses[1]
    sets = [name for name in packages(whole.folder) if "batchnorm.safetensors" in name]
    assert bool(sets) == (change["regime"]["name"] not in ("hm", "standard", "tride"))
