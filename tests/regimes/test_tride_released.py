"""`tride` against the authors' public code itself.

`tride_released.json` was written by github.com/michaeltian108/CA-TRIDE at 55366aa on a CPU in float64: its `CAP` and
`ANP` (λ 10, 8/255, 16 steps of 1/255), the miner behind `spc2-ghard`, and the second of two calls of
`fn_ptriplet_kernel`, as a training step makes them, around a network of one convolution, BatchNorm, tanh and a linear
layer, on 16 images of 8 classes. Epochs 40 and 61 of 75 are steps here. Stored are the triplets and all negatives that
300 draws of the miner found, perturbations in 255ths, loss and gradients. These functions alone were called:
`training_step` passes `pnp_training_step` fewer arguments than it takes, so the public code cannot train as it is.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from accelerate import Accelerator
from by_hand import images_learnt
from regime_cases import embedder, gradients
from torch import Generator, Tensor

from holdfast.losses import Criterion
from holdfast.losses import build as build_loss
from holdfast.mining import Miner, SemiHard, Triplets, Tuples
from holdfast.models import Embedder
from holdfast.regimes import Batch, CollapseAwareTriplets, StepContext

PUBLIC: dict[str, Any] = json.loads(Path(__file__).with_name("tride_released.json").read_text("utf-8"))
cases = pytest.mark.parametrize("case", PUBLIC["cases"], ids=["candidates", "anchors"])


def figures(values: Any) -> Tensor:
    return torch.tensor(values, dtype=torch.float64)


class Given(Miner):
    """The triplets of the public run."""

    def __init__(self, case: dict[str, Any]) -> None:
        self.found = Triplets(*torch.tensor(case["triplets"]))

    def __call__(
        self, embeddings: Tensor, labels: Tensor, generator: Generator | None = None, images: Tensor | None = None
    ) -> Tuples:
        return self.found


def model() -> Embedder:
    """The network of the public run."""
    made = embedder("freeze-statistics")
    state = made.state_dict()
    made.load_state_dict(state | {name: figures(value) for name, value in PUBLIC["state"].items()})
    return made


def context(network: Embedder, case: dict[str, Any]) -> StepContext:
    criterion = Criterion(build_loss("triplet", margin=0.2)).double()
    made = StepContext(network, criterion, Accelerator(cpu=True), 0, total=case["total"])
    made.start(case["step"])
    return made


@cases
def test_a_step_is_that_of_the_public_code(case: dict[str, Any]) -> None:
    network = model()
    ctx, images = context(network, case), figures(case["images"])
    seen = images_learnt(ctx)
    result = CollapseAwareTriplets(Given(case)).step(ctx, Batch(images, torch.tensor(case["labels"])))
    anchor, positive, negative = (images[rows] for rows in case["triplets"])
    moved, clean = figures(case["moved"]) / 255, torch.cat((anchor, positive, negative))
    still = torch.zeros_like(clean[: len(clean) - len(moved)])
    expected = clean + torch.cat((still, moved) if case["step"] % 2 == 0 else (moved, still))
    assert moved.abs().max() * 255 > 1.5
    torch.testing.assert_close(seen[0], expected, rtol=0, atol=1e-8)  # the share of training has single precision
    assert float(result.loss.detach()) == pytest.approx(case["loss"], abs=1e-7)
    for name, value in gradients(network, result.loss).items():
        torch.testing.assert_close(value, figures(case["gradients"][name]), rtol=0, atol=1e-6)


@cases
def test_its_miner_draws_from_the_same_negatives(case: dict[str, Any]) -> None:
    ctx = context(model(), case)
    labels = torch.tensor(case["labels"])
    clean = ctx.observe(figures(case["images"]), labels)
    miner = CollapseAwareTriplets(SemiHard(anchors="first", variant="published"))._miner(ctx.progress)
    found: list[set[int]] = [set() for _ in case["bands"]]
    for seed in range(300):
        triplets = miner(clean.z, labels, Generator().manual_seed(seed))
        assert [triplets[0].tolist(), triplets[1].tolist()] == case["triplets"][:2]
        for pool, negative in zip(found, triplets[2].tolist(), strict=True):
            pool.add(negative)
    assert [sorted(pool) for pool in found] == case["bands"]
