"""The protocol of everyday damage."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from holdfast import audit
from holdfast.audit import natural, subject
from holdfast.audit.damage import DAMAGES
from holdfast.audit.plan import Passes
from holdfast.audit.sampling import balanced_rows
from holdfast.cli.audit import audit_table
from holdfast.data import ImageStore, ImageTable
from holdfast.errors import HoldfastError, RecipeError
from holdfast.models import Embedder
from holdfast.view import View

LIMIT = 30


@pytest.fixture(scope="module")
def few(table: ImageTable) -> ImageTable:
    return table.subset(np.isin(table.labels, np.unique(table.labels)[:15]))


def test_figures_add_up(model: Embedder, few: ImageTable) -> None:
    document = audit.run(model, few, "natural", limit=LIMIT).document
    metrics, cells, intervals = document["metrics"], document["natural"], document["natural_intervals"]
    assert list(cells) == list(DAMAGES)
    assert list(metrics)[:4] == ["R@1", "natural R@1", "natural loss", "patch R@1"]
    assert metrics["natural R@1"] == pytest.approx(np.mean(list(cells.values())))
    assert metrics["natural loss"] == pytest.approx(metrics["R@1"] - metrics["natural R@1"])
    assert 0 <= metrics["patch R@1"] < metrics["R@1"] - 20
    assert metrics["natural loss"] > 5
    for kind, row in cells.items():
        assert len(row) == 5
        for value, (low, high) in zip(row, intervals[kind], strict=True):
            assert low <= value <= high
    assert all(low <= metrics[key] <= high for key, (low, high) in document["intervals"].items() if key in metrics)
    assert document["patch"] == {"area": 0.05, "by": "gradient", "steps": 20}
    assert set(document["described"]) >= {"natural R@1", "natural loss", "patch R@1"}
    assert not {flag["level"] for flag in document["flags"]} & {"error"}
    told = audit_table(document)
    assert "natural R@1" in told
    assert all(kind in told for kind in DAMAGES)
    assert "255/255" not in told
    assert document == {**audit.run(model, few, "natural", limit=LIMIT).document, "seconds": document["seconds"]}


def test_the_query_is_damaged_and_the_gallery_is_clean(model: Embedder, few: ImageTable) -> None:
    document = audit.run(model, few, audit.Natural(only=("flip",)), limit=LIMIT, seed=3).document
    assert "patch R@1" not in document["metrics"]
    assert document["settings"] == {"only": ["flip"]}
    test = few.split("test")
    labels = torch.tensor(test.labels)
    rows = balanced_rows(labels, LIMIT, 3)
    images = ImageStore(test, View(model.size), "cpu").inputs(torch.arange(len(test)))
    model.eval()
    with torch.no_grad():
        gallery, mirrored = model(images), model(images[rows].flip(3))
        away = torch.cdist(mirrored, gallery)
    away[torch.arange(LIMIT), rows] = torch.inf
    hits = labels[away.argmin(1)] == labels[rows]
    assert document["natural"]["flip"][0] == pytest.approx(100 * float(hits.double().mean()))


def test_a_killed_audit_goes_on(
    model: Embedder, few: ImageTable, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    protocol = audit.Natural(only=("jpeg", "noise", "patch"))
    whole = audit.run(model, few, protocol, limit=LIMIT).document

    def dies(*_: Any, **__: Any) -> Any:
        raise KeyboardInterrupt

    monkeypatch.setattr(natural, "patched", dies)
    with pytest.raises(KeyboardInterrupt):
        audit.run(model, few, protocol, limit=LIMIT, out=tmp_path)
    monkeypatch.undo()
    monkeypatch.setattr(natural, "damaged", dies)
    document = audit.run(model, few, protocol, limit=LIMIT, out=tmp_path).document
    assert (tmp_path / "audit-natural-fixed.json").is_file()
    for key in ("metrics", "natural", "natural_intervals", "intervals"):
        assert document[key] == whole[key]


class Blind(nn.Module):
    """Gives no gradients, as an ONNX graph."""

    differentiable = False

    def forward(self, images: Tensor) -> Tensor:
        return torch.nn.functional.avg_pool2d(images.detach(), 4).flatten(1)


def test_a_model_without_gradients_is_searched_for_patches(few: ImageTable, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subject, "SQUARE_QUERIES", 40)
    document = audit.run(Blind(), few, "natural", limit=12, size=16).document
    assert document["patch"]["by"] == "search"
    assert document["metrics"]["patch R@1"] <= document["metrics"]["R@1"]
    assert len(document["natural"]) == len(DAMAGES)


def test_a_larger_patch_and_a_first_look(model: Embedder, few: ImageTable) -> None:
    only = ("patch",)
    small, large = (audit.run(model, few, audit.Natural(only=only, area=area), limit=LIMIT) for area in (1e-4, 0.3))
    assert large.document["metrics"]["patch R@1"] < small.document["metrics"]["patch R@1"]
    assert "natural R@1" not in small.document["metrics"]
    quick = audit.run(model, few, audit.Natural(only=only), quick=True).document
    assert quick["images"] == 20
    assert quick["patch"]["steps"] == 5
    assert "first-look" in {flag["name"] for flag in quick["flags"]}


def test_it_costs_a_fifth_of_ers(model: Embedder, few: ImageTable, monkeypatch: pytest.MonkeyPatch) -> None:
    """Counted in passes, where the gradient takes as long as the pass forward, or twice as long."""
    counted = {}

    def count(queue: Any, *_: Any) -> Any:
        raise Counted(queue.total)

    monkeypatch.setattr("holdfast.audit.runner.attack_all", count)
    for name in ("natural", "ers"):
        with pytest.raises(Counted) as found:
            audit.run(model, few, name, limit=LIMIT)
        counted[name] = found.value.passes
    for back in (2, 3):
        natural_cost, ers_cost = (each.forward + back * each.back for each in counted.values())
        assert natural_cost <= ers_cost / 5


class Counted(Exception):
    def __init__(self, passes: Passes) -> None:
        self.passes = passes


@pytest.mark.parametrize(
    ("arguments", "message"),
    [({"only": ("jpg",)}, "jpeg"), ({"area": 0}, "area"), ({"mode": "replaced"}, "mode")],
)
def test_mistakes(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(RecipeError, match=message):
        audit.Natural(**arguments)


def test_what_it_does_not_take(model: Embedder, few: ImageTable, tmp_path: Path) -> None:
    with pytest.raises(HoldfastError, match="eps"):
        audit.run(model, few, {"name": "natural", "eps": 0.1})
    with pytest.raises(RecipeError, match="examples"):
        audit.run(model, few, "natural", examples=2, out=tmp_path)
