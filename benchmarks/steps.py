"""Training steps that benchmarks time: the settings of regimes, and one step of any of them as training runs it."""

from __future__ import annotations

from typing import Any

import torch
from accelerate import Accelerator

from holdfast import losses, regimes
from holdfast.losses import Criterion
from holdfast.models import Embedder
from holdfast.regimes import Batch, StepContext

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
    """Calling it does one step: regime, backward pass, update.

    Args:
        model: on its device; gets the BatchNorm sets of the regime and is put in training mode.
        regime: one of `REGIMES`.
        batch: on the model's device, the same in every step.
        compiled: run the passes through `torch.compile`.
        changed: in the block of the regime.
    """

    def __init__(self, model: Embedder, regime: str, batch: Batch, compiled: bool = False, **changed: Any) -> None:
        loss, loss_block, block = REGIMES[regime]
        device = batch.images.device
        self._regime = regimes.build(regime, **{**block, **changed})
        for start in self._regime.sets():
            model.bank.add(model.backbone, start)
        model.train()
        criterion = Criterion(losses.build(loss, **loss_block)).to(device)
        self._accelerator = Accelerator(
            cpu=device.type == "cpu", mixed_precision="bf16" if device.type == "cuda" else "no"
        )
        self._context = StepContext(model, criterion, self._accelerator, 0, compiled)
        self._optimizer = torch.optim.Adam(model.parameters(), lr=1e-5, fused=True)
        self._batch = batch

    @property
    def passes(self) -> int:
        """Passes forward and back of the last step."""
        return self._context.passes

    def __call__(self) -> None:
        """One step."""
        self._context.start(self._context.step + 1)
        self._accelerator.backward(self._regime.step(self._context, self._batch).loss)
        self._optimizer.step()
        self._optimizer.zero_grad(set_to_none=True)
