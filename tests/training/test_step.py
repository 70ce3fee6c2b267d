from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from holdfast.errors import RecipeError
from holdfast.regimes import Batch, Regime, StepContext, StepResult
from holdfast.regimes.base import registry
from holdfast.run_files import log_lines, passed_images, passes_per_step
from holdfast.training import train
from holdfast.training.recipe import load_recipe
from holdfast.training.session import Session, build_session
from holdfast.training.step import load_batch, one_step


def parts(recipe: dict[str, Any], **changes: Any) -> tuple[Session, StepContext, Batch]:
    session = build_session(load_recipe({**recipe, **changes}), "cpu", False)
    context = StepContext(session.model, session.criterion, session.accelerator, session.recipe.seed)
    context.start(0)
    return session, context, load_batch(session, context, next(iter(session.batches)))


def gradient(session: Session) -> dict[str, torch.Tensor]:
    return {n: p.grad.clone() for n, p in session.model.named_parameters() if p.grad is not None}


def test_mining_groups_average_the_gradients_of_parts_mined_apart(tiny: dict[str, Any]) -> None:
    tiny["loss"] = {"name": "triplet", "miner": "hardest"}
    tiny["model"]["batchnorm"] = "freeze"
    session, context, batch = parts(tiny, mining_groups=2)
    result = one_step(session, context, batch, update=False)
    found = gradient(session)
    session.optimizer.zero_grad()
    expected = []
    for context.group, half in enumerate((slice(0, 9), slice(9, 18))):
        part = session.regime.step(context, Batch(batch.images[half], batch.labels[half]))
        (part.loss / 2).backward()
        expected.append(part.loss.detach())
    assert torch.allclose(result.loss, torch.stack(expected).mean())
    wanted = gradient(session)
    assert found.keys() == wanted.keys()
    assert all(torch.equal(found[n], wanted[n]) for n in found)
    session.optimizer.zero_grad()
    context.group = 0
    session.regime.step(context, batch).loss.backward()
    assert not torch.allclose(gradient(session)["head.weight"], found["head.weight"]), "groups do not mine apart"


def test_a_log_counts_passes_of_the_batch_however_many_groups_it_has(tiny: dict[str, Any], tmp_path: Path) -> None:
    tiny |= {"loss": {"name": "triplet", "miner": "hardest"}, "epochs": 1}
    found = []
    for groups in (1, 2):
        run = train({**tiny, "mining_groups": groups}, out=tmp_path / str(groups), device="cpu")
        lines = log_lines((run.folder / "metrics.jsonl").read_text("utf-8"))
        found.append((passes_per_step(lines), passed_images(lines)))
    assert found[0] == found[1]
    assert found[0][0] == 1


def test_miners_are_told_which_images_a_batch_repeats(tiny: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    tiny["data"] = {"name": "glyphs", "characters": 12, "per_class": 2}
    tiny["loss"] = {"name": "gradient", "miner": "ephn"}
    tiny["batch"] = {"classes": 6, "per_class": 4}
    session, context, batch = parts(tiny, mining_groups=2)
    rows = next(iter(session.batches))
    assert torch.equal(batch.numbers, rows)
    assert len(rows.unique()) == len(rows) / 2
    miner = session.criterion.loss.miner
    found = []

    def mined(*given: Any) -> Any:
        triplets = miner(*given)
        found.append((given[3], triplets))
        return triplets

    monkeypatch.setattr(session.criterion.loss, "miner", mined)
    one_step(session, context, batch, update=False)
    assert torch.equal(torch.cat([numbers for numbers, _ in found]), rows)
    for numbers, triplets in found:
        assert len(triplets.anchor) == len(rows) / 2
        assert (numbers[triplets.anchor] != numbers[triplets.positive]).all()


@pytest.mark.parametrize("groups", [0, 4, 6])
def test_groups_that_do_not_fit_the_batch_are_refused(tiny: dict[str, Any], groups: int) -> None:
    with pytest.raises(RecipeError, match="mining_groups"):
        load_recipe({**tiny, "mining_groups": groups})


@pytest.fixture
def replaying() -> Iterator[list[tuple[int, float]]]:
    """A regime that learns a batch three times, and what it saw: replay and a weight at each."""
    seen: list[tuple[int, float]] = []

    @registry.register("three-times")
    class ThreeTimes(Regime):
        """Learn a batch again."""

        replays = 3

        def step(self, ctx: StepContext, batch: Batch) -> StepResult:
            encoded = ctx.encode(batch.images, batch.labels)
            seen.append((ctx.replay, float(torch.rand((), generator=ctx.generator("draw")))))
            return StepResult(ctx.criterion(encoded), encoded)

    yield seen
    registry._members.pop("three-times")


def test_a_replayed_batch_updates_every_time_with_draws_of_its_own(
    tiny: dict[str, Any], replaying: list[tuple[int, float]]
) -> None:
    session, context, batch = parts(tiny, regime="three-times")
    before = session.model.head.weight.detach().clone()
    one_step(session, context, batch, update=True)
    assert [replay for replay, _ in replaying] == [0, 1, 2]
    assert len({draw for _, draw in replaying}) == 3
    assert context.passes == 3
    assert not torch.equal(before, session.model.head.weight)
    with pytest.raises(RecipeError, match="replay"):
        load_recipe({**tiny, "regime": "three-times", "accumulate": 2})
    with pytest.raises(RecipeError, match="replay"):
        load_recipe({**tiny, "regime": "three-times", "mining_groups": 2})


def test_a_step_that_fails_leaves_no_perturbed_weights(tiny: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    session, context, batch = parts(tiny, regime={"name": "at", "budget": {"eps": 0.03, "steps": 1}}, extras=["awp"])
    before = {name: weight.detach().clone() for name, weight in session.model.named_parameters()}
    usual, moved = context.criterion, []

    def failing(*arguments: Any, **more: Any) -> torch.Tensor:
        moved.append(any(not torch.equal(weight, before[name]) for name, weight in session.model.named_parameters()))
        if moved[-1]:
            raise RuntimeError("out of memory, say")
        return usual(*arguments, **more)

    monkeypatch.setattr(context, "criterion", failing)
    with pytest.raises(RuntimeError, match="say"):
        one_step(session, context, batch, update=True)
    assert moved == [False, True]
    assert all(torch.equal(weight, before[name]) for name, weight in session.model.named_parameters())
