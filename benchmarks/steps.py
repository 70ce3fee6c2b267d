"""Training steps that benchmarks time: the settings of regimes, and one step of any of them as training runs it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import torch
from accelerate import Accelerator

from holdfast import losses, regimes
from holdfast.losses import Criterion
from holdfast.mining import BatchFacts
from holdfast.models import Embedder
from holdfast.regimes import Batch, StepContext
from holdfast.training.captured import CapturedStep
from holdfast.training.optimizers import Adam

SOURCE = {"name": "softhard", "anchors": "first", "variant": "published"}
HM_BUDGET = {"eps": "8/255", "step": "1/255", "steps": 8}
REGIMES: dict[str, tuple[str, dict[str, Any], dict[str, Any]]] = {
    "standard": ("triplet", {"miner": SOURCE}, {}),
    "hm": ("triplet", {}, {"source": SOURCE, "destination": 2.0, "budget": HM_BUDGET}),
    "act": ("triplet", {}, {"source": SOURCE, "budget": HM_BUDGET}),
    "adml": ("multi-similarity", {"miner": "multi-similarity"}, {}),
    "mdprop": ("multi-similarity", {"miner": "multi-similarity"}, {}),
}
"""Loss, its block and the block of the regime. No triplet reaches HM's destination, so that every step is taken."""


class TrainingStep:
    """Calling it does one step as training does it: regime, backward pass, update.

    Args:
        model: on its device; gets the BatchNorm sets of the regime and is put in training mode.
        regime: one of `REGIMES`.
        batch: on the model's device, the same in every step.
        compiled: run the passes through `torch.compile`.
        captured: on a GPU, capture the step as a CUDA graph when it has warmed up, after three calls.
        changed: in the block of the regime.
    """

    def __init__(
        self,
        model: Embedder,
        regime: str,
        batch: Batch,
        compiled: bool = False,
        captured: bool = True,
        **changed: Any,
    ) -> None:
        loss, loss_block, block = REGIMES[regime]
        device = batch.images.device
        built = regimes.build(regime, **{**block, **changed})
        for start in built.sets():
            model.bank.add(model.backbone, start)
        model.train()
        criterion = Criterion(losses.build(loss, **loss_block)).to(device)
        accelerator = Accelerator(cpu=device.type == "cpu", mixed_precision="bf16" if device.type == "cuda" else "no")
        self._context = StepContext(model, criterion, accelerator, 0, compiled)
        numbers = torch.arange(len(batch.labels))
        known = BatchFacts.of(batch.labels.cpu(), numbers)
        self._batch = Batch(batch.images, batch.labels, None, numbers.to(device), known)
        session: Any = SimpleNamespace(
            recipe=SimpleNamespace(
                accumulate=1, mining_groups=1, clip=None, compile=captured, optimizer=SimpleNamespace(name="adam")
            ),
            device=device,
            model=model,
            criterion=criterion,
            regime=built,
            optimizer=Adam(lr=1e-5, weight_decay=0.0).build(model, criterion),
            accelerator=accelerator,
            average=None,
        )
        self._learn = CapturedStep(session, self._context)

    @property
    def passes(self) -> int:
        """Passes forward and back of the last step."""
        return self._context.passes

    @property
    def captured(self) -> bool:
        """Whether steps are replayed from a CUDA graph by now."""
        return bool(self._learn._captured)

    def __call__(self) -> torch.Tensor:
        """One step; its loss, which holds until the next."""
        self._context.start(self._context.step + 1)
        return self._learn(self._batch, update=True).loss
