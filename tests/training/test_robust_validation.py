"""A model chosen by R@1 under attack."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from interruption import break_off
from torch import Tensor

import holdfast
from holdfast.attacks import Budget
from holdfast.data import ImageStore
from holdfast.errors import TrainingError
from holdfast.evaluation import embed
from holdfast.models import load_model
from holdfast.training.logs import read_log
from holdfast.training.recipe import load_recipe
from holdfast.training.robust_validation import RobustValidation
from holdfast.training.session import Session, build_session

SHORT = {"budget": {"eps": "8/255", "steps": 2}, "images": 24}


def test_the_chosen_epoch_is_the_best_under_attack(
    tiny: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tiny |= {"robust_validation": SHORT}
    given = iter([30.0, 20.0, 25.0, 30.0, 20.0, 25.0])
    monkeypatch.setattr(RobustValidation, "_measure", lambda self, *rest: next(given))
    run = holdfast.train(tiny, out=tmp_path / "run")
    lines = [line for line in read_log(run.folder / "metrics.jsonl") if "validation" in line and line["step"]]
    assert [line["validation"]["robust R@1"] for line in lines] == [30.0, 20.0, 25.0]
    assert [bool(line.get("kept")) for line in lines] == [True, False, False]
    assert run.evaluation["kept"]["epoch"] == 1
    assert "under attack" in run.evaluation["kept"]["why"]


def test_an_interrupted_run_chooses_the_same(
    tiny: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tiny |= {"robust_validation": SHORT | {"budget": {"eps": "8/255", "steps": 2, "start": "uniform"}}, "epochs": 2}
    whole = holdfast.train(tiny, out=tmp_path / "whole")
    break_off(tiny, tmp_path / "cut", 7, monkeypatch)
    resumed = holdfast.train(tiny, out=tmp_path / "cut")
    assert whole.evaluation["kept"] == resumed.evaluation["kept"]
    found = [load_model(str(run.folder)).state_dict() for run in (whole, resumed)]
    assert all(torch.equal(found[0][name], found[1][name]) for name in found[0])


def undisturbed(recipe: dict[str, Any]) -> tuple[Session, ImageStore, Tensor, Tensor, float]:
    """A model, its validation images, their embeddings and labels, and R@1, which is that without an attack."""
    session = build_session(load_recipe(recipe), "cpu")
    store = session.open_store("val")
    vectors, labels = embed(session.model, store), torch.tensor(store.table.labels_for("fine"))
    d = torch.cdist(vectors, vectors).fill_diagonal_(torch.inf)
    recall = 100 * float((labels[d.argmin(1)] == labels).float().mean())
    none = RobustValidation(budget=Budget(eps=0.0, steps=1), images=10_000)
    assert none.measure(session.model, store, vectors, labels, 0) == pytest.approx(recall)
    return session, store, vectors, labels, recall


def test_vectors_of_any_length(tiny: dict[str, Any]) -> None:
    tiny["model"] |= {"normalize": False, "dim": 2}  # so few that lengths decide who is near
    _, _, vectors, labels, recall = undisturbed(tiny | {"loss": {"name": "triplet", "miner": "random"}})
    turned = torch.nn.functional.normalize(vectors)
    nearest = torch.cdist(turned, turned).fill_diagonal_(torch.inf).argmin(1)
    assert 100 * float((labels[nearest] == labels).float().mean()) != pytest.approx(recall), "or it shows nothing"


def test_the_figure(tiny: dict[str, Any]) -> None:
    """Without an attack it is R@1; with one it is not higher, and the model is left as it was."""
    session, store, vectors, labels, recall = undisturbed(tiny)
    before = {name: value.clone() for name, value in session.model.state_dict().items()}
    strong = RobustValidation(budget=Budget(eps=0.3, steps=4), images=10_000)
    assert strong.measure(session.model, store, vectors, labels, 0) < recall
    assert session.model.training
    assert all(torch.equal(value, before[name]) for name, value in session.model.state_dict().items())


def test_without_validation_classes_it_is_refused(tiny: dict[str, Any], tmp_path: Path) -> None:
    tiny |= {"robust_validation": SHORT, "data": tiny["data"] | {"validation": 0}}
    with pytest.raises(TrainingError, match=r"data\.validation"):
        holdfast.train(tiny, out=tmp_path / "run")
