"""A picture for every file of numbers that is there, and none for those that are not."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from plots import FIGURES, draw, short

FIT = {"time_slope": 1.0, "memory_slope": 0.5}
CURVE = {"title": "a step", "along": "images"}
GROWTH = {
    "hardware": "a machine",
    "backbone": "conv-tiny",
    "size": 16,
    "repeats": 1,
    "curves": {"gallery": CURVE, "qa": CURVE, "eta": CURVE},
    "fits": [{"curve": "gallery", **FIT}, {"curve": "qa", "time_slope": 1.0}, {"curve": "eta", **FIT}],
    "rows": [
        {"curve": name, "x": x, "seconds": x / 9, "mib": None if name == "qa" else 20.0}
        for name in ("gallery", "qa", "eta")
        for x in (1, 2048)
    ],
}
LOSSES = {
    "hardware": "a machine",
    "rows": [
        {"kind": kind, "name": "some", "batch": batch, "dim": 128, "ratio": ratio}
        for kind in ("loss", "miner")
        for batch, ratio in ((128, 0.8), (256, None), (512, 900.0))
    ],
}
GPU = {
    "device": "a GPU",
    "backbone": "resnet18",
    "size": 224,
    "rows": [
        {"row": "ceiling", "images": 512, "compiled": 20000.0},
        {"row": "standard", "ours": 0.02, "peers": 0.01, "ratio": 0.5, "share": 0.3},
        {"row": "ers", "ours": 89.0, "peers": 789.0, "ratio": 8.8},
        {"row": "hm", "error": "out of memory"},
    ],
}
METRICS = [
    {"contender": name, "vectors": 600, "queries": 600, "dim": 8, "seconds": 0.5, "mib": 3.0}
    for name in ("ours", "faiss", "our-kmeans")
]
CONTENTS: dict[str, Any] = {
    "growth": GROWTH,
    "growth-gpu": GROWTH,
    "losses": LOSSES,
    "gpu-resnet18": GPU,
    "gpu-resnet50": GPU,
    "metrics": METRICS,
}


@pytest.mark.parametrize("name", FIGURES)
def test_each_file_has_its_picture(tmp_path: Path, name: str, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / f"{name}.json").write_text(json.dumps(CONTENTS[name]))
    draw(tmp_path)
    assert [file.name for file in tmp_path.glob("*.png")] == [f"{name}.png"]
    assert (tmp_path / f"{name}.png").read_bytes().startswith(b"\x89PNG")
    said = capsys.readouterr().out
    assert [other for other in FIGURES if f"no {other}.json, so no {other}.png" not in said] == [name]


def test_large_counts_are_written_short() -> None:
    assert [short(count) for count in (9, 1024, 16384, 2**20)] == ["9", "1k", "16k", "1M"]
