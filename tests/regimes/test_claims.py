"""What adversarial training is for, on a small scale: models that are attacked in training withstand attacks."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import holdfast

pytestmark = pytest.mark.slow


def figures(recipe: str, folder: Path, protocol: str) -> dict[str, Any]:
    """Clean and attacked figures of a short run."""
    settings = ["epochs=14", "evaluate_every=14", "batch.classes=14", "model.backbone=conv-tiny"]
    run = holdfast.train(recipe, "glyphs", out=folder / recipe, settings=settings, device="cpu")
    audit = holdfast.audit.run(str(run.folder), "glyphs", protocol=protocol, limit=150, device="cpu")
    metrics: dict[str, Any] = audit.document["metrics"]
    return metrics


def test_hardness_manipulation_withstands_ranking_attacks(tmp_path: Path) -> None:
    plain = figures("triplet-pocket", tmp_path, "ers")
    moved = figures("hm-lga-pocket", tmp_path, "ers")
    assert moved["ERS"] > plain["ERS"] + 10
    assert not moved["collapsed"]


def test_images_moved_from_their_class_teach_to_stay(tmp_path: Path) -> None:
    plain = figures("pocket", tmp_path, "adml")
    aligned = figures("adml-a-pocket", tmp_path, "adml")
    assert aligned["alignment/R@1"] > plain["alignment/R@1"] + 10


def test_separate_batchnorm_sets_withstand_targeted_images_at_no_cost_in_clean_ones(tmp_path: Path) -> None:
    plain = figures("pocket", tmp_path, "stax")
    several = figures("mdprop-2-pocket", tmp_path, "stax")
    assert several["stax-large/R@1"] > plain["stax-large/R@1"] + 5
    assert several["R@1"] > plain["R@1"] - 5
