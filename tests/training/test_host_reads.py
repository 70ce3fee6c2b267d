"""No step of a shipped recipe makes the host wait for a GPU."""

from __future__ import annotations

import json
from typing import Any

import pytest
import torch
from host_reads import NoHostReads

from holdfast.attacks.forward import Lagged
from holdfast.regimes import StepContext
from holdfast.training.recipe import load_recipe
from holdfast.training.recipe_files import shipped
from holdfast.training.session import build_session
from holdfast.training.step import load_batch, one_step


def combinations() -> dict[str, dict[str, Any]]:
    """What shipped recipes learn with, each once, under the name of the first recipe that has it."""
    found: dict[str, tuple[str, dict[str, Any]]] = {}
    for name in sorted(shipped(), key=lambda name: ("pocket" not in name, name)):
        recipe = load_recipe(name)
        parts = {"loss": recipe.loss.plain, "regime": recipe.regime.plain, "sampler": recipe.batch.sampler}
        found.setdefault(json.dumps(parts, sort_keys=True, default=str), (name, parts))
    n_pair = {"loss": {"name": "n-pair"}, "regime": {"name": "standard"}, "sampler": "classes"}
    return {**dict(found.values()), "n-pair": n_pair}


COMBINATIONS = combinations()


def small(value: Any) -> Any:
    """Arguments of a recipe with budgets of two steps and narrow heads."""
    if isinstance(value, dict):
        return {key: {"steps": 2}.get(key, small(inner)) if inner is not None else None for key, inner in value.items()}
    return [small(inner) for inner in value] if isinstance(value, (list, tuple)) else value


@pytest.mark.parametrize("name", COMBINATIONS)
def test_a_step_reads_nothing(name: str, tiny: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    parts = small(COMBINATIONS[name])
    paired = {"classes": 9, "per_class": 2, "sampler": parts["sampler"]}
    tiny |= {"loss": parts["loss"], "regime": parts["regime"], "batch": paired, "ema": 0.9, "clip": 1.0}
    tiny["optimizer"] = {"name": "sgd", "lr": 0.01, "momentum": 0.9}  # torch's Adam reads its own counter on a CPU
    tiny["data"] = {"name": "glyphs", "characters": 40, "per_class": 4}
    if parts["loss"]["name"] == "s2sd":
        tiny["loss"] |= {"dims": [8], "pooling": "average", "feature_after": 0}
    session = build_session(load_recipe(tiny), "cpu")
    context = StepContext(session.model, session.criterion, session.accelerator, 0)
    # On a GPU the answer is that to the question before, which waits in pinned memory.
    monkeypatch.setattr(Lagged, "ask", lambda self, question: False)
    for step, rows in zip(range(2), session.batches, strict=False):
        context.start(step)
        batch = load_batch(session, context, rows)
        if step == 0:
            one_step(session, context, batch, update=True)  # lengths are looked at once
        else:
            with NoHostReads():
                one_step(session, context, batch, update=True)


def test_a_read_is_noticed() -> None:
    values = torch.arange(4.0)
    reads = (lambda: values.sum().item(), lambda: values.nonzero(), lambda: values[values > 1], lambda: torch.tensor(1))
    for read in reads:
        with pytest.raises(AssertionError, match="makes the host wait"), NoHostReads():
            read()
