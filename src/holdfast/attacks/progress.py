"""Asking a device something without making it wait."""

from __future__ import annotations

import torch
from torch import Tensor


class Lagged:
    """Yes or no, asked again and again while work is queued on a device.

    On a GPU each answer is the one to the question before: by then it has been computed, and the work queued since
    keeps the device busy while the host reads it. Elsewhere the answer is to the question itself.
    """

    def __init__(self) -> None:
        self._answer: Tensor | None = None
        self._ready: torch.cuda.Event | None = None

    def ask(self, question: Tensor) -> bool:
        """An answer to this question, or to the one before.

        Args:
            question: a boolean scalar on the device.
        """
        if question.device.type != "cuda":
            return bool(question)
        before, ready = self._answer, self._ready
        self._answer = torch.empty((), dtype=torch.bool, pin_memory=True)
        self._answer.copy_(question, non_blocking=True)
        self._ready = torch.cuda.Event()  # type: ignore[no-untyped-call]
        self._ready.record()
        if before is None or ready is None:
            return False
        ready.synchronize()
        return bool(before)
