"""A run that is broken off at a step, as by Ctrl-C in the middle of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import holdfast
from holdfast.training import captured
from holdfast.training.checkpoint import Checkpoint, load_checkpoint


def break_off(recipe: dict[str, Any], folder: Path, step: int, monkeypatch: pytest.MonkeyPatch) -> Checkpoint:
    """Train until a step fails; returns the checkpoint that is left. The next run of the recipe goes on from it."""
    real, calls = captured.one_step, iter(range(1000))

    def fails_once(*arguments: Any) -> Any:
        if next(calls) == step:
            raise KeyboardInterrupt
        return real(*arguments)

    monkeypatch.setattr(captured, "one_step", fails_once)
    with pytest.raises(KeyboardInterrupt):
        holdfast.train(recipe, out=folder)
    found = load_checkpoint(folder / "checkpoint")
    assert found is not None
    return found
