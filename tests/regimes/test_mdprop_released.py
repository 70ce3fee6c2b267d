"""`variant: released` against the public code itself.

`mdprop_released.json` was written by github.com/intherejeet/MDProp at 5feaa14 on a CPU in float64: its `PGDAttacker`
(1 and 5 targets, ε 0.01, one step), the training pass of its `AdvResNet_Mine`, its `MixBatchNorm2d` and its
multi-similarity criterion, around a network of one convolution, BatchNorm, tanh and a linear layer, on 8 images of 4
classes. What it drew (permutations, starts) was written down as it went. Each half of the images has a black and a
white pixel, so that the public code's bounds, the least and greatest pixel of a half, are those of [0, 1].
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from regime_cases import context, embedder, gradients
from torch import Tensor

from holdfast.attacks.ball import Ball
from holdfast.losses import Encoded
from holdfast.models import Embedder
from holdfast.models.bank import SetStart
from holdfast.regimes import Batch, build
from holdfast.regimes import mdprop as module

PUBLIC: dict[str, Any] = json.loads(Path(__file__).with_name("mdprop_released.json").read_text("utf-8"))
PLACES = {"backbone.bn": "bn", "bank.sets.stax.0": "bn.aux_bn1", "bank.sets.mtax.0": "bn.aux_bn2"}


def theirs(name: str) -> str:
    """Their name of one of our tensors."""
    place, _, which = name.rpartition(".")
    return f"{PLACES.get(place, place.removeprefix('backbone.'))}.{which}"


def figures(values: Any) -> Tensor:
    return torch.tensor(values, dtype=torch.float64)


@pytest.fixture
def model() -> Embedder:
    """The network of the public run."""
    made = embedder(sets=(SetStart("stax", fresh=True), SetStart("mtax", fresh=True)))
    state = {
        name: value if name.endswith("num_batches_tracked") else figures(PUBLIC["state"][theirs(name)])
        for name, value in made.state_dict().items()
    }
    made.load_state_dict(state)
    return made


def test_a_step_is_that_of_the_public_code(model: Embedder, monkeypatch: pytest.MonkeyPatch) -> None:
    orders, starts = iter(PUBLIC["permutations"]), iter(PUBLIC["starts"])
    monkeypatch.setattr(module, "permutations", lambda times, *_: torch.tensor([next(orders) for _ in range(times)]))
    monkeypatch.setattr(Ball, "start", lambda self, *_: self.project(self.images + figures(next(starts))))
    made = context(model, "multi-similarity", miner="multi-similarity", reduction="mined")
    attack, criterion, moved, seen = made.attack, made.criterion, [], []

    def watched(*arguments: Any, **named: Any) -> Tensor:
        moved.append(attack(*arguments, **named))
        return moved[-1]

    def judged(encoded: Encoded, *arguments: Any, **named: Any) -> Tensor:
        seen.append(encoded)
        return criterion(encoded, *arguments, **named)

    monkeypatch.setattr(made, "attack", watched)
    monkeypatch.setattr(made, "criterion", judged)
    data = Batch(figures(PUBLIC["images"]), torch.tensor(PUBLIC["labels"]))
    result = build("mdprop", variant="released").step(made, data)

    torch.testing.assert_close(moved, [figures(part) for part in PUBLIC["moved"]], rtol=0, atol=1e-9)
    torch.testing.assert_close(seen[0].z, figures(PUBLIC["embeddings"]), rtol=0, atol=1e-10)
    assert seen[0].labels.tolist() == 2 * PUBLIC["labels"]
    for name, value in model.state_dict().items():
        if "running" in name:
            torch.testing.assert_close(value, figures(PUBLIC["running"][theirs(name)]), rtol=0, atol=1e-10)
    assert float(result.loss.detach()) == pytest.approx(PUBLIC["loss"], abs=1e-10)
    for name, gradient in gradients(model, result.loss).items():
        torch.testing.assert_close(gradient, figures(PUBLIC["gradients"][theirs(name)]), rtol=0, atol=1e-8)
