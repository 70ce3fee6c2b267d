"""Pages and cards of a model whose head was fitted in closed form speak of no training that never was."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from reported_runs import recipe, run_folder, write

from holdfast.models.card import card_text
from holdfast.report import compare
from holdfast.report import write as write_page

MODEL = {"backbone": "torchvision:mobilenet_v2", "dim": None, "weights": "mobilenet_v2.safetensors"}
FITTED = recipe() | {"epochs": 0, "model": {**MODEL, "pooling": "gem", "head": "whitened"}}


@pytest.fixture
def run(tmp_path: Path) -> Path:
    folder = run_folder(tmp_path)
    write(folder / "recipe.yaml", yaml.safe_dump(FITTED, sort_keys=False))
    why = "a head fitted in closed form (pooling power 2, shrinkage 10)"
    write(folder / "metrics.jsonl", f'{{"step": 0, "epoch": 0, "fitted": {{"power": 2.0, "why": "{why}"}}}}\n')
    return folder


def test_a_report(run: Path) -> None:
    page = write_page(run).read_text("utf-8").replace("<wbr>", "")
    summary = page.partition("Full recipe")[0]
    assert "A torchvision:mobilenet_v2 network that turns an image into a vector, with a head fitted to glyphs" in page
    assert "A head fitted to glyphs in closed form" in page
    assert "the model was fitted in one go" in page
    assert "whitened" in summary
    assert not [word for word in ("None dim", "into None", "margin (", "adam (", "0 epochs") if word in summary]


def test_a_card() -> None:
    card = card_text(FITTED)
    assert "# fitted head on glyphs" in card
    assert "- head: whitened" in card
    assert not [word for word in ("margin", "adam", "epochs") if word in card]


def test_a_comparison(run: Path, tmp_path: Path) -> None:
    other = run_folder(tmp_path / "other")
    assert "fitted head" in compare([run, other], tmp_path / "page.html").read_text("utf-8")
