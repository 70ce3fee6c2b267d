"""Models that come with the package."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

import holdfast
from holdfast import audit
from holdfast.errors import ModelError
from holdfast.models import Embedder, load_model, shipped, spellings
from holdfast.models.shipped import shipped_folder, shipped_names

POCKET = "holdfast/pocket-robust"
MOST = 1_000_000
"""Bytes that a shipped model may have."""


@pytest.fixture
def offline(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise OSError("there is no network here")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)


@pytest.mark.parametrize("name", shipped_names())
def test_each_is_small_whole_and_says_what_it_is(name: str, offline: None) -> None:
    folder = shipped_folder(name)
    assert folder is not None
    assert sum(file.stat().st_size for file in folder.iterdir()) <= MOST
    assert {file.name for file in folder.iterdir()} == {"config.json", "model.safetensors", "README.md"}
    card = (folder / "README.md").read_text("utf-8")
    assert name in card
    assert "robust R@1" in card
    loaded = Embedder.from_pretrained(name), load_model(name)
    weights = [{key: tensor.clone() for key, tensor in model.state_dict().items()} for model in loaded]
    assert all(bool((weights[1][key] == tensor).all()) for key, tensor in weights[0].items())
    assert not any(model.training for model in loaded)
    assert any(name in words for words in spellings())


def test_a_folder_of_that_name_comes_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Embedder("conv-tiny", dim=5, size=16).save_pretrained(tmp_path / POCKET)
    assert shipped_folder(POCKET) is None
    assert load_model(POCKET).dim == Embedder.from_pretrained(POCKET).dim == 5


def test_others_of_that_owner_are_the_hubs(offline: None) -> None:
    assert shipped_folder("holdfast/no-such-model") is None
    assert shipped_folder("pocket-robust") is None
    with pytest.raises(ModelError, match="no connection to the hub"):
        load_model("holdfast/no-such-model")


def test_a_misspelt_name_is_answered_with_the_right_one(offline: None) -> None:
    with pytest.raises(ModelError, match=f"did you mean '{POCKET}'"):
        load_model("holdfast/pocket-robus")


def test_a_package_without_any_still_works(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shipped, "FOLDER", tmp_path / "none")
    assert shipped_names() == []


def test_the_pocket_model_is_as_robust_as_its_card_says() -> None:
    """On the embedded glyphs, test classes: R@1 of all, and what 60 of them keep under attack."""
    clean = holdfast.evaluate(POCKET, "glyphs").values["R@1"]
    assert clean == pytest.approx(86.7, abs=0.5)
    found = audit.run(POCKET, "glyphs", limit=60).document
    assert found["metrics"]["ERS"] > 50
    assert found["flags"] == []
