from __future__ import annotations

import copy
from pathlib import Path

import pytest
import torch
from PIL import Image
from torch import nn

from holdfast import attack, audit, console
from holdfast.errors import DataError, HoldfastError
from holdfast.evaluation import evaluate, read_table
from holdfast.models import Embedder


def net() -> nn.Module:
    return nn.Sequential(nn.AdaptiveAvgPool2d(4), nn.Flatten(), nn.Linear(48, 10))


def test_any_module_can_be_evaluated(photos: Path) -> None:
    result = evaluate(net(), f"folder:{photos}", size=32, device="cpu")
    assert 0 <= result.values["R@1"] <= 100


def test_a_module_comes_back_as_it_came(photos: Path) -> None:
    """Also one whose layers are in other modes than it is itself."""
    layers = nn.Sequential(nn.BatchNorm2d(3), nn.Dropout(), nn.AdaptiveAvgPool2d(4), nn.Flatten())
    for modes in ((False, False, False), (True, False, True), (False, True, True)):
        layers.train(modes[0])
        layers[0].train(modes[1])
        layers[1].train(modes[2])
        before = copy.deepcopy(layers.state_dict())
        evaluate(layers, f"folder:{photos}", size=32, device="cpu")
        assert (layers.training, layers[0].training, layers[1].training) == modes
        assert all(torch.equal(value, before[key]) for key, value in layers.state_dict().items())


def test_a_run_may_be_named_by_its_path(photos: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    Embedder("conv-tiny", dim=8, size=16, canvas=16).eval().save_pretrained(run / "model")
    assert Embedder.from_pretrained(run).dim == 8
    assert evaluate(run, f"folder:{photos}", device="cpu").values == evaluate(str(run), f"folder:{photos}").values
    assert attack(run, torch.rand(4, 3, 16, 16), torch.arange(4) // 2, steps=1).images.shape == (4, 3, 16, 16)
    assert audit.run(run, f"folder:{photos}", quick=True, limit=2, device="cpu").document["model"] == str(run)


def test_the_number_of_clusters_can_be_asked_for(photos: Path) -> None:
    data = f"folder:{photos}"
    plain = evaluate(net(), data, split="all", size=32, device="cpu")
    assert plain.reasons["NMI+"] == "120 clusters asked of 60 images"
    asked = evaluate(net(), data, split="all", size=32, device="cpu", factor=2, clusters=24)
    assert asked.values["NMI+"] is not None
    assert asked.clustering == {"factor": 2, "clusters": 24}
    assert asked.values["NMI"] != plain.values["NMI"]


def test_skip_bad_of_a_data_block_also_skips_unreadable_images(photos: Path) -> None:
    (photos / "class-0" / "0.png").write_bytes(b"junk")
    block = {"name": "folder", "root": str(photos)}
    with pytest.raises(DataError, match=r"0\.png"):
        evaluate(net(), block, split="all", size=32, device="cpu")
    result = evaluate(net(), {**block, "skip_bad": True}, split="all", size=32, device="cpu")
    assert result.images == 59


def test_skipped_files_are_told_once_and_only_where_data_is_read(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("a/1.png", "b/1.png"):
        (tmp_path / name).parent.mkdir()
        Image.new("RGB", (8, 8)).save(tmp_path / name)
    with console.shown():
        assert read_table(f"folder:{tmp_path}", False)[0].skipped_files.counts()["no_images"] == 0
    assert capsys.readouterr().err == ""
    (tmp_path / "a" / "2.heic").write_bytes(b"x")
    with console.shown():
        table, _ = read_table(f"folder:{tmp_path}", False)
    assert capsys.readouterr().err == "skipped: 1 file is no image by extension (.heic 1: a/2.heic)\n"
    with console.shown():
        read_table(table, False)
    read_table(f"folder:{tmp_path}", False)
    assert capsys.readouterr().err == ""


def test_what_attacks_cannot_work_with_is_said(photos: Path) -> None:
    class Broken(nn.Module):
        def forward(self, images: torch.Tensor) -> torch.Tensor:
            return images.flatten(1) * torch.nan

    images, labels = torch.rand(4, 3, 16, 16), torch.arange(4) // 2
    for call in (
        lambda: attack(Broken(), images, labels),
        lambda: audit.run(Broken(), f"folder:{photos}", quick=True, limit=2, size=16, device="cpu"),
    ):
        with pytest.raises(HoldfastError, match="NaN or inf"):
            call()
    with torch.inference_mode():
        with pytest.raises(HoldfastError, match="inference_mode"):
            attack(net(), images, labels)
        with pytest.raises(HoldfastError, match="inference_mode"):
            audit.run(net(), f"folder:{photos}", quick=True, limit=2, size=16, device="cpu")
