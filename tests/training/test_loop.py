from __future__ import annotations

import json
import os
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from interruption import break_off
from safetensors.torch import load_file

import holdfast
from holdfast.config import builder
from holdfast.errors import HoldfastError, RecipeError, TrainingError
from holdfast.losses import Loss
from holdfast.regimes import StepContext
from holdfast.run_files import best_on_test, curve_on_test
from holdfast.training import captured, checkpoint, loop, lr_schedules
from holdfast.training.checkpoint import Checkpoint, load_checkpoint, save_checkpoint
from holdfast.training.folder import TrainingFolder
from holdfast.training.health import NARROW, Collapsed, keep_last_good
from holdfast.training.logs import read_log
from holdfast.training.recipe import load_recipe
from holdfast.training.session import build_session
from holdfast.training.step import load_batch, one_step

build_schedule = builder(lr_schedules.registry)


def weights(folder: Path, which: str = "last") -> dict[str, torch.Tensor]:
    return load_file(folder / which / "model.safetensors")


def same(a: dict[str, torch.Tensor], b: dict[str, torch.Tensor]) -> bool:
    return a.keys() == b.keys() and all(torch.equal(a[k], b[k]) for k in a)


def test_a_run_leaves_what_it_promises(tiny: dict[str, Any], tmp_path: Path) -> None:
    run = holdfast.train(tiny, out=tmp_path / "run")
    assert {f.name for f in run.folder.iterdir()} == {
        *("recipe.yaml", "metrics.jsonl", "checkpoint", "model", "last", "evaluation.json")
    }
    content = json.loads((run.folder / "evaluation.json").read_text())
    assert content["schema"] == 1
    assert content["split"] == "test"
    assert 0 <= content["metrics"]["R@1"] <= 100
    assert {"torch", "holdfast"} <= content["versions"].keys()
    lines = read_log(run.folder / "metrics.jsonl")
    steps = [line["step"] for line in lines]
    assert steps == sorted(steps)
    assert lines[0]["start"]["validation"] == lines[1]["validation"]["R@1"], "the untrained model comes first"
    assert content["start"] == lines[0]["start"]
    assert all(line["loss"] > 0 and line["images_per_second"] > 0 for line in lines if "loss" in line)
    assert "conv-tiny" in (run.folder / "model" / "README.md").read_text()


def test_two_runs_are_bit_identical_and_the_resolved_recipe_repeats_them(tiny: dict[str, Any], tmp_path: Path) -> None:
    first = holdfast.train(tiny, out=tmp_path / "a")
    torch.manual_seed(99)
    second = holdfast.train(tmp_path / "a" / "recipe.yaml", out=tmp_path / "b")
    assert same(weights(first.folder), weights(second.folder))
    other = holdfast.train(tiny, seed=1, out=tmp_path / "c")
    assert not same(weights(first.folder), weights(other.folder))


@pytest.mark.parametrize(
    "change",
    [
        {},
        {"accumulate": 3, "checkpoint_every": 1},
        {"ema": 0.9, "test_curve": True, "optimizer": {"name": "sgd", "lr": 0.1, "momentum": 0.9}},
        {"loss": "proxy-anchor", "schedule": {"name": "cosine", "warmup": 0.2}, "clip": 1.0},
        {"loss": {"name": "trimmed", "loss": {"name": "triplet", "miner": "semihard"}}, "cache": "none"},
    ],
    ids=["margin", "accumulate", "ema-sgd", "proxies", "trimmed-uncached"],
)
def test_an_interrupted_run_ends_like_an_uninterrupted_one(
    tiny: dict[str, Any], change: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recipe = {**tiny, **change}
    whole = holdfast.train(recipe, out=tmp_path / "whole")
    found = break_off(recipe, tmp_path / "cut", 9, monkeypatch)
    assert 5 <= found.step <= 9
    resumed = holdfast.train(recipe, out=tmp_path / "cut")
    for which in ("last", "model"):
        assert same(weights(whole.folder, which), weights(resumed.folder, which))
    ends = [load_checkpoint(folder / "checkpoint") for folder in (whole.folder, resumed.folder)]
    assert same(ends[0].tensors, ends[1].tensors), "loss parameters and optimiser memory too"  # type: ignore[union-attr]
    assert ends[0].state == ends[1].state  # type: ignore[union-attr]
    assert whole.evaluation["metrics"] == resumed.evaluation["metrics"]
    assert whole.evaluation.get("best_on_test") == resumed.evaluation.get("best_on_test")
    logs = [read_log(folder / "metrics.jsonl") for folder in (whole.folder, resumed.folder)]
    assert curve_on_test(logs[0]) == curve_on_test(logs[1])
    assert ("test_curve" in change) == bool(curve_on_test(logs[0]))
    steps = [line["step"] for line in read_log(resumed.folder / "metrics.jsonl") if "loss" in line]
    assert len(steps) == len(set(steps))


def test_a_run_goes_on_with_the_same_images_only(
    tiny: dict[str, Any], photos: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One class more moves others between training and testing, so that the run would be measured on what it learnt."""
    recipe = {**tiny, "data": {"name": "folder", "root": str(photos)}, "loss": "contrastive"}
    recipe["batch"] = {"classes": 2, "per_class": 3}
    break_off(recipe, tmp_path / "run", 5, monkeypatch)
    (photos / "another").mkdir()
    for image in (photos / "class-0").iterdir():
        shutil.copy(image, photos / "another")
    with pytest.raises(TrainingError, match="put back the images it began with"):
        holdfast.train(recipe, out=tmp_path / "run")
    shutil.rmtree(photos / "another")
    (photos / "class-0" / "0.png").write_bytes(b"junk")
    holdfast.train(recipe, out=tmp_path / "run", skip_bad=True)


def test_a_stop_request_saves_and_leaves(tiny: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    handler = signal.getsignal(signal.SIGTERM)
    real, calls = captured.one_step, iter(range(1000))

    def interrupts(*arguments: Any) -> Any:
        if next(calls) == 5:
            os.kill(os.getpid(), signal.SIGTERM)
        return real(*arguments)

    monkeypatch.setattr(captured, "one_step", interrupts)
    with pytest.raises(loop.Interrupted, match="stopped at step 6 of"):
        holdfast.train(tiny, out=tmp_path / "run")
    found = load_checkpoint(tmp_path / "run" / "checkpoint")
    assert found is not None
    assert found.step == 6
    assert signal.getsignal(signal.SIGTERM) is handler


def test_a_finished_run_is_not_run_again(tiny: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = holdfast.train(tiny, out=tmp_path / "run")
    monkeypatch.setattr(loop, "build_session", None)
    assert holdfast.train(tiny, out=tmp_path / "run").evaluation == first.evaluation


def test_what_a_kill_left_of_older_checkpoints_is_removed(
    tiny: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Killed after its last step, while it removed an older checkpoint; the last one is not touched again."""
    run = holdfast.train(tiny, out=tmp_path / "run")
    whole = {file: file.read_bytes() for file in (run.folder / "checkpoint").rglob("*.*")}
    (run.folder / "evaluation.json").unlink()
    (run.folder / "checkpoint" / "000000001").mkdir()
    (run.folder / "checkpoint" / "000000001" / "tensors.safetensors").write_bytes(b"half")
    monkeypatch.setattr(loop, "save_checkpoint", None)
    again = holdfast.train(tiny, out=tmp_path / "run")
    assert {file: file.read_bytes() for file in (run.folder / "checkpoint").rglob("*.*")} == whole
    assert again.evaluation["metrics"] == run.evaluation["metrics"]


def test_a_model_that_takes_long_to_write_is_not_written_after_every_epoch(
    tiny: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After the first and after the last one, and as often as asked for by those who ask."""
    steps: list[int] = []

    def slowly(folder: Path, found: Checkpoint) -> None:
        steps.append(found.step)
        save_checkpoint(folder, found)
        now[0] += 60

    now = [0.0]
    monkeypatch.setattr(loop, "save_checkpoint", slowly)
    monkeypatch.setattr(checkpoint, "monotonic", lambda: now[0])
    tiny |= {"epochs": 4, "checkpoint_every": None}
    run = holdfast.train(tiny, out=tmp_path / "run")
    epoch = steps[0]
    assert steps == [epoch, 4 * epoch]
    steps.clear()
    holdfast.train(tiny | {"checkpoint_every": epoch}, out=tmp_path / "often")
    assert steps == [epoch, 2 * epoch, 3 * epoch, 4 * epoch]
    assert (run.folder / "evaluation.json").is_file()


def test_another_recipe_in_the_same_folder_is_refused(tiny: dict[str, Any], tmp_path: Path) -> None:
    holdfast.train(tiny, out=tmp_path / "run")
    with pytest.raises(RecipeError, match=r"differs in optimizer\.lr"):
        holdfast.train(tiny, out=tmp_path / "run", settings=["optimizer.lr=0.1"])


def test_nan_stops_with_the_last_good_checkpoint_in_place(
    tiny: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, calls = captured.one_step, iter(range(1000))

    def poisons(session: Any, context: Any, batch: Any, *how: bool) -> Any:
        if next(calls) == 6:
            batch = type(batch)(batch.images * float("nan"), batch.labels)
        return real(session, context, batch, *how)

    monkeypatch.setattr(captured, "one_step", poisons)
    with pytest.raises(TrainingError, match="checkpoint of step 4 is kept"):
        holdfast.train(tiny, out=tmp_path / "run")
    found = load_checkpoint(tmp_path / "run" / "checkpoint")
    assert found is not None
    assert found.step == 4
    assert all(torch.isfinite(t.float()).all() for t in found.tensors.values())


def test_a_full_disk_at_a_checkpoint_loses_nothing(
    tiny: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from holdfast.training import checkpoint

    real, calls = checkpoint.write_synced, iter(range(1000))

    def full(file: Path, data: bytes) -> None:
        if next(calls) == 2:  # the second checkpoint's tensors
            raise OSError(28, "No space left on device", str(file))
        real(file, data)

    monkeypatch.setattr(checkpoint, "write_synced", full)
    with pytest.raises(TrainingError, match=r"No space left.*step 4 is kept.*same command"):
        holdfast.train(tiny, out=tmp_path / "run")
    found = load_checkpoint(tmp_path / "run" / "checkpoint")
    assert found is not None
    assert found.step == 4
    assert not list((tmp_path / "run" / "checkpoint").glob(".*")), "nothing half-written is left"


def test_starting_from_another_run(tiny: dict[str, Any], tmp_path: Path) -> None:
    first = holdfast.train(tiny, out=tmp_path / "a")
    frozen = {**tiny, "init": str(first.folder), "epochs": 1, "optimizer": {"name": "sgd", "lr": 1e-12}}
    second = holdfast.train(frozen, out=tmp_path / "b")
    a, b = weights(first.folder, "model"), weights(second.folder)
    torch.testing.assert_close(a["head.weight"], b["head.weight"])
    with pytest.raises(HoldfastError, match="another backbone or size"):
        holdfast.train({**frozen, "model": {"backbone": "conv-tiny", "dim": 4}}, out=tmp_path / "c")


def test_frozen_batchnorm_stays(tiny: dict[str, Any], tmp_path: Path) -> None:
    recipe = {**tiny, "model": {**tiny["model"], "batchnorm": "freeze"}, "epochs": 1}
    state = weights(holdfast.train(recipe, out=tmp_path / "run").folder)
    assert torch.equal(state["backbone.1.running_mean"], torch.zeros(16))
    assert torch.equal(state["backbone.1.weight"], torch.ones(16))


def test_without_validation_classes_the_last_model_is_the_model(tiny: dict[str, Any], tmp_path: Path) -> None:
    tiny["data"]["validation"] = 0
    run = holdfast.train(tiny, out=tmp_path / "run")
    assert same(weights(run.folder, "model"), weights(run.folder, "last"))


@pytest.mark.parametrize("validation", [0, 0.2])
def test_the_curve_on_the_test_classes_chooses_nothing(tiny: dict[str, Any], validation: float, tmp_path: Path) -> None:
    tiny["data"]["validation"] = validation
    plain = holdfast.train(tiny, out=tmp_path / "plain")
    run = holdfast.train({**tiny, "test_curve": True}, out=tmp_path / "run")
    for which in ("last", "model"):
        assert same(weights(plain.folder, which), weights(run.folder, which))
    assert run.evaluation["metrics"] == plain.evaluation["metrics"]
    assert run.evaluation["reported"] == ("best on validation" if validation else "last")
    assert "best_on_test" not in plain.evaluation
    curve = {line["epoch"]: line["test"] for line in read_log(run.folder / "metrics.jsonl") if "test" in line}
    assert list(curve) == [0, 1, 2, 3]
    assert all(set(point) == {"R@1", "R@2", "R@4", "R@8", "NMI"} for point in curve.values())
    best = run.evaluation["best_on_test"]
    assert best["R@1"] == max(curve[epoch]["R@1"] for epoch in (1, 2, 3))
    assert best == {"epoch": best["epoch"], **curve[best["epoch"]]}
    last = holdfast.evaluate(str(run.folder / "last"), tiny["data"], device="cpu").values
    assert {key: last[key] for key in curve[3]} == pytest.approx(curve[3])


def test_best_on_test_is_the_first_of_the_best_and_no_start() -> None:
    lines = [{"step": n, "epoch": n, "test": {"R@1": recall}} for n, recall in enumerate([90.0, 50.0, 60.0, 60.0])]
    lines += [{"step": 9, "epoch": 9, "test": None}, {"step": 9, "test": {"R@1": 99.0}}, {"step": 9, "epoch": 9}]
    assert best_on_test(curve_on_test(lines)) == {"epoch": 2, "R@1": 60.0}
    assert best_on_test(curve_on_test([{"step": 0, "epoch": 1, "test": {"R@1": None}}])) is None


def test_a_curve_needs_test_classes(tiny: dict[str, Any], photos: Path, tmp_path: Path) -> None:
    tiny |= {"data": {"name": "folder", "root": str(photos), "test": 0}, "test_curve": True}
    with pytest.raises(RecipeError, match="test_curve"):
        holdfast.train(tiny, out=tmp_path / "run")


def test_bfloat16_on_a_cpu_trains(tiny: dict[str, Any], tmp_path: Path) -> None:
    tiny["model"] |= {"size": 8, "canvas": 8}  # many processors have no instructions for it
    run = holdfast.train({**tiny, "precision": "bfloat16", "epochs": 1}, out=tmp_path / "run")
    assert all(v.dtype != torch.bfloat16 for v in weights(run.folder).values())


def test_coarse_labels_train_and_both_levels_are_reported(tiny: dict[str, Any], tmp_path: Path) -> None:
    tiny["data"] |= {"labels": "coarse"}
    tiny["batch"] = {"classes": 2, "per_class": 6}
    run = holdfast.train({**tiny, "epochs": 1}, out=tmp_path / "run")
    assert {"R@1", "coarse/R@1"} <= run.evaluation["metrics"].keys()


@pytest.fixture
def collapsing(tiny: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """A recipe whose loss maps everything to one point."""

    class Everything(Loss):
        def forward(self, embeddings: torch.Tensor, *_: Any) -> torch.Tensor:
            return (embeddings - embeddings[:1].detach()).square().sum()

    from holdfast.losses.base import registry

    registry.register("everything-is-one")(Everything)
    recipe = {**tiny, "loss": "everything-is-one", "log_every": 1, "epochs": 40, "evaluate_every": 40}
    recipe["optimizer"] = {"name": "adam", "lr": 0.01}
    yield recipe
    registry._members.pop("everything-is-one")


def test_collapse_is_reported_in_the_log(collapsing: dict[str, Any], tmp_path: Path) -> None:
    run = holdfast.train({**collapsing, "on_collapse": "warn", "checkpoint_every": 1000}, out=tmp_path / "run")
    log = read_log(run.folder / "metrics.jsonl")
    warnings = [line for line in log if "warning" in line]
    assert len(warnings) == 1
    assert "collapsing" in warnings[0]["warning"]
    spreads = [line["spread"] for line in log if "spread" in line]
    assert spreads[0] > 1e-3 > spreads[-1] >= 0


@pytest.mark.parametrize("validation", [True, False])
def test_a_collapse_stops_the_run_and_keeps_the_last_good_model(
    collapsing: dict[str, Any], validation: bool, tmp_path: Path
) -> None:
    recipe = {**collapsing, "checkpoint_every": 1, "evaluate_every": 1}
    if not validation:
        recipe["data"] = {**recipe["data"], "validation": 0}
    with pytest.raises(Collapsed, match="softer miner") as stopped:
        holdfast.train(recipe, out=tmp_path / "run")
    assert str(tmp_path / "run" / "model") in str(stopped.value)
    log = {line["step"]: line["spread"] for line in read_log(tmp_path / "run" / "metrics.jsonl") if "spread" in line}
    assert max(log) < 40 * 5, "it did not go on to the end"
    assert not (tmp_path / "run" / "evaluation.json").exists()
    kept = holdfast.evaluate(str(tmp_path / "run"), recipe["data"], split="train")
    assert not kept.values["collapsed"], "the packaged model is from before the collapse"
    newest, good = (load_checkpoint(tmp_path / "run" / name) for name in ("checkpoint", "checkpoint-good"))
    assert newest is not None
    assert good is not None
    assert log[good.step] >= NARROW > log[newest.step]
    if not validation:
        packaged = weights(tmp_path / "run", "model")
        assert all(torch.equal(packaged[name], good.tensors[f"model.{name}"]) for name in packaged)


def test_a_collapse_is_noticed_as_soon_by_a_resumed_run(
    collapsing: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recipe = {**collapsing, "checkpoint_every": 1}
    stopped = []
    for folder in (tmp_path / "whole", tmp_path / "cut"):
        if folder.name == "cut":
            break_off(recipe, folder, 12, monkeypatch)
        with pytest.raises(Collapsed):
            holdfast.train(recipe, out=folder)
        stopped.append(read_log(folder / "metrics.jsonl")[-1]["step"])
    assert stopped[0] == stopped[1]


def test_a_run_that_collapsed_is_not_gone_on_with(collapsing: dict[str, Any], tmp_path: Path) -> None:
    recipe = {**collapsing, "checkpoint_every": 1, "data": {**collapsing["data"], "validation": 0}}
    run = TrainingFolder(tmp_path / "run")
    with pytest.raises(Collapsed):
        holdfast.train(recipe, out=run.folder)
    before = {file: file.read_bytes() for file in run.folder.rglob("*.*") if file.is_file()}
    with pytest.raises(Collapsed, match=r"collapsed at step .* kept in .*model.* --out.*softer miner") as again:
        holdfast.train(recipe, out=run.folder)
    assert "\n" not in str(again.value)
    assert {file: file.read_bytes() for file in run.folder.rglob("*.*") if file.is_file()} == before


def test_a_checkpoint_of_before_says_nothing_of_a_collapse(
    tiny: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = break_off(tiny, tmp_path / "run", 9, monkeypatch)
    state = {key: value for key, value in found.state.items() if key != "watch"}
    save_checkpoint(tmp_path / "run" / "checkpoint", Checkpoint(found.step, found.tensors, state))
    assert holdfast.train(tiny, out=tmp_path / "run").evaluation["metrics"]


@pytest.mark.parametrize("accumulate", [5, 4])
def test_no_update_of_gathered_batches_is_wasted(accumulate: int, tiny: dict[str, Any], tmp_path: Path) -> None:
    """Its rate is the mean of its batches'; that of its last batch, at the end of a cosine, is zero."""
    tiny |= {"epochs": 1, "accumulate": accumulate, "schedule": "cosine", "checkpoint_every": None, "log_every": 1}
    tiny["data"] |= {"validation": 0}
    run = holdfast.train(tiny, out=tmp_path / "run", device="cpu")
    rates = [line["lr"] for line in read_log(run.folder / "metrics.jsonl") if "lr" in line]
    alone = [build_schedule("cosine").factor(step, 5) * 0.003 for step in range(5)]
    windows = [alone[start : start + accumulate] for start in range(0, 5, accumulate)]
    assert rates == pytest.approx([sum(window) / len(window) for window in windows for _ in window])


def test_a_last_update_of_fewer_batches_is_their_mean(tiny: dict[str, Any], tmp_path: Path) -> None:
    """By plain gradient descent, an update of one batch moves as far alone as at the end of more."""
    sgd = {"name": "sgd", "lr": 1e-3, "weight_decay": 0.0}
    tiny |= {"loss": "contrastive", "optimizer": sgd, "epochs": 1, "checkpoint_every": 1}
    gathered = {**tiny, "accumulate": 4, "data": {**tiny["data"], "validation": 0}}  # of five
    holdfast.train(gathered, out=tmp_path / "run", device="cpu")
    session = build_session(load_recipe(gathered), "cpu")
    shutil.rmtree(tmp_path / "run" / "checkpoint" / "000000005")
    found = load_checkpoint(tmp_path / "run" / "checkpoint")
    assert found is not None
    session.restore(found)
    before = session.model.head.weight.detach().clone()  # type: ignore[operator, union-attr]
    context = StepContext(session.model, session.criterion, session.accelerator, 0)
    context.start(4)
    session.accelerator.gradient_accumulation_steps = 1
    one_step(session, context, load_batch(session, context, list(session.batches)[4]), update=True)
    moved = session.model.head.weight.detach() - before  # type: ignore[operator, union-attr]
    torch.testing.assert_close(weights(tmp_path / "run")["head.weight"] - before, moved)


def test_more_batches_per_update_than_there_are_are_refused(tiny: dict[str, Any], tmp_path: Path) -> None:
    with pytest.raises(RecipeError, match=r"accumulate \(1000\) is more than all 12 steps"):
        holdfast.train({**tiny, "accumulate": 1000}, out=tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_the_callers_determinism_is_left_alone(tiny: dict[str, Any], tmp_path: Path) -> None:
    torch.use_deterministic_algorithms(True, warn_only=False)
    try:
        holdfast.train({**tiny, "epochs": 1}, out=tmp_path / "run", device="cpu")
        assert torch.are_deterministic_algorithms_enabled()
        assert not torch.is_deterministic_algorithms_warn_only_enabled()
    finally:
        torch.use_deterministic_algorithms(False)


def test_a_suspicion_that_passes_leaves_nothing_behind(tmp_path: Path) -> None:
    run = TrainingFolder(tmp_path)
    keep_last_good(run, True)
    assert not run.good.exists(), "there is no checkpoint to set aside yet"
    save_checkpoint(run.checkpoints, Checkpoint(3, {"a": torch.ones(2)}, {}))
    keep_last_good(run, True)
    save_checkpoint(run.checkpoints, Checkpoint(4, {"a": torch.zeros(2)}, {}))
    keep_last_good(run, True)
    found = load_checkpoint(run.good)
    assert found is not None
    assert found.step == 3, "the first is the good one"
    keep_last_good(run, False)
    assert not run.good.exists()


def test_too_few_classes_for_a_batch(tiny: dict[str, Any], tmp_path: Path) -> None:
    with pytest.raises(HoldfastError, match=r"batch\.classes"):
        holdfast.train({**tiny, "batch": {"classes": 500, "per_class": 2}}, out=tmp_path / "run")


def test_the_callers_random_state_is_left_alone(tiny: dict[str, Any], tmp_path: Path) -> None:
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    holdfast.train({**tiny, "epochs": 1}, out=tmp_path / "run", device="cpu")
    assert torch.initial_seed() == 5
    assert torch.equal(torch.rand(3), expected)
