"""What training made of the model it began with is measured, kept and told."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from safetensors.torch import save_file

import holdfast
from holdfast.models import Embedder
from holdfast.run_files import outcome, outcome_lines

START = {"start": {"of": "the plain features of resnet50", "test": 80.6, "validation": 74.0}}


def log_of(*scores: float) -> list[dict[str, Any]]:
    """A log in which each validation but the first was packaged where it was the best so far."""
    lines: list[dict[str, Any]] = [{"step": 0, "epoch": 0, **START}]
    for epoch, score in enumerate(scores):
        kept = {"kept": True} if epoch and score >= max(scores[1 : epoch + 1]) else {}
        lines.append({"step": epoch, "epoch": epoch, "validation": {"R@1": score}, **kept})
    return lines


def judged(after: float, classes: int, images: int) -> dict[str, Any]:
    return {"metrics": {"R@1": after}, "splits": {"val": {"classes": classes, "images": images}}}


def test_a_loss_is_told_with_both_figures() -> None:
    found = outcome(log_of(74.0, 70.0, 72.0), judged(69.7, 10, 300), 2)
    assert found["kept"]["epoch"] == 2
    assert len(found["warnings"]) == 1
    assert all(word in found["warnings"][0] for word in ("lost", "80.6", "69.7", "plain features of resnet50"))


def test_what_a_defence_costs_is_no_failure() -> None:
    evaluation = judged(39.0, 10, 300)
    evaluation |= outcome(log_of(74.0, 70.0), evaluation, 1, attacked=True)
    assert evaluation["warnings"] == []
    assert "80.6 → 39.0" in outcome_lines(evaluation)[0]


def test_a_gain_warns_of_nothing_and_says_before_and_after() -> None:
    evaluation = judged(83.2, 10, 300)
    evaluation |= outcome(log_of(74.0, 78.0, 76.0), evaluation, 2)
    assert evaluation["warnings"] == []
    first, second = outcome_lines(evaluation)
    assert "80.6 → 83.2" in first
    assert "epoch 1" in second
    assert "74.0 → 78.0" in second


@pytest.mark.parametrize(("classes", "images"), [(2, 48), (2, 500), (30, 60)])
def test_too_small_a_validation_is_said_to_be_so(classes: int, images: int) -> None:
    warnings = outcome(log_of(74.0, 78.0), judged(90.0, classes, images), 1)["warnings"]
    assert len(warnings) == 1
    assert f"{classes} validation classes with {images} images" in warnings[0]


def test_without_validation_the_last_epoch_is_kept_and_nothing_is_chosen() -> None:
    found = outcome([{"step": 0, "epoch": 0, **START}], {"metrics": {"R@1": 81.0}, "splits": {}}, 7)
    assert found["kept"]["epoch"] == 7
    assert found["warnings"] == []


def test_where_validation_chose_none_the_reason_is_another() -> None:
    log = [{"epoch": 0, "validation": {"R@1": 9.0}}, {"epoch": 1, "validation": {"R@1": 5.0}}]
    assert outcome(log, {}, 1)["kept"]["why"] == "the last: every epoch's embeddings lay close together"
    for nothing in (log[:1], [{"epoch": 1, "validation": {"R@1": None}}]):
        assert outcome(nothing, {}, 1)["kept"]["why"] == "the last: no validation classes to choose by"


def test_of_equals_the_latest_epoch_is_kept(tiny: dict[str, Any], tmp_path: Path) -> None:
    still = {"optimizer": {"name": "sgd", "lr": 1e-12, "weight_decay": 0}, "epochs": 3, "loss": "triplet"}
    model = {"model": {**tiny["model"], "batchnorm": "freeze"}}  # so that nothing moves and all epochs are equal
    run = holdfast.train({**tiny, **still, **model}, out=tmp_path / "run")
    assert run.evaluation["kept"]["epoch"] == 3
    assert run.evaluation["start"]["test"] == pytest.approx(run.evaluation["metrics"]["R@1"])


@pytest.mark.parametrize("size", [None, 40])
def test_a_new_head_on_given_weights_is_compared_with_the_model_as_it_came(
    size: int | None, tiny: dict[str, Any], tmp_path: Path
) -> None:
    given = Embedder("conv-tiny", dim=None)
    save_file(given.backbone.state_dict(), tmp_path / "given.safetensors")
    recipe = {
        **tiny,
        "model": {**tiny["model"], "weights": str(tmp_path / "given.safetensors"), "size": size},
        "epochs": 1,
    }
    run = holdfast.train(recipe, out=tmp_path / "run")
    plain = holdfast.evaluate(given, tiny["data"]).values["R@1"]
    assert run.evaluation["start"]["of"] == "the plain features of conv-tiny at 32 px"
    assert run.evaluation["start"]["test"] == pytest.approx(plain)
    card = (run.folder / "model" / "README.md").read_text()
    assert all(line in card for line in outcome_lines(run.evaluation))


@pytest.mark.parametrize(
    ("split", "told"), [("all", "trained on"), ("val", "chosen by"), ("test", None), ("query", None)]
)
def test_figures_of_images_that_training_saw_are_told(split: str, told: str | None) -> None:
    found = outcome(log_of(74.0, 70.0, 72.0), {**judged(90.0, 10, 300), "split": split}, 2)
    assert [told in warning for warning in found["warnings"] if told] == ([True] if told else [])
    assert told or found["warnings"] == []
