from __future__ import annotations

from pathlib import Path

import pytest
from torch import nn

from holdfast.errors import DataError
from holdfast.evaluation import evaluate


def net() -> nn.Module:
    return nn.Sequential(nn.AdaptiveAvgPool2d(4), nn.Flatten(), nn.Linear(48, 10))


def test_any_module_can_be_evaluated(photos: Path) -> None:
    result = evaluate(net(), f"folder:{photos}", size=32, device="cpu")
    assert 0 <= result.values["R@1"] <= 100


def test_skip_bad_of_a_data_block_also_skips_unreadable_images(photos: Path) -> None:
    (photos / "class-0" / "0.png").write_bytes(b"junk")
    block = {"name": "folder", "root": str(photos)}
    with pytest.raises(DataError, match=r"0\.png"):
        evaluate(net(), block, split="all", size=32, device="cpu")
    result = evaluate(net(), {**block, "skip_bad": True}, split="all", size=32, device="cpu")
    assert result.images == 59
