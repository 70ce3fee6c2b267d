"""Small runs and audits made by hand, and their embeddings computed the plain way."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import torch
import yaml
from numpy.typing import NDArray
from PIL import Image

from holdfast.data import ImageTable, load
from holdfast.models import Embedder, load_model

HOSTILE = ("<script>alert(1)</script>", '"><img src=x onerror=alert(1)>', "../../etc/passwd", "{{ 7*7 }}\u202e")


def write_images(folder: Path, counts: dict[str, dict[str, int]], noise: int = 90, group: bool = False) -> Path:
    """A CSV file and its pictures: split → class → how many; noisy enough for an untrained model to err."""
    folder.mkdir(parents=True, exist_ok=True)
    draw = np.random.default_rng(0)
    bases: dict[str, NDArray[np.int64]] = {}
    rows: list[dict[str, str]] = []
    for split, classes in counts.items():
        for name, count in classes.items():
            base = bases.setdefault(name, draw.integers(60, 196, (32, 32, 3)))
            for number in range(count):
                pixels = np.clip(base + draw.integers(-noise, noise + 1, base.shape), 0, 255).astype(np.uint8)
                file = f"{len(rows):04d}.png"
                Image.fromarray(pixels).save(folder / file)
                own = {"group": str(number % 2)} if group else {}
                rows.append({"path": file, "label": name, "split": split, **own})
    with (folder / "images.csv").open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    return folder / "images.csv"


def make_run(folder: Path, data: dict[str, Any], seed: int = 5) -> Path:
    """A run folder with an untrained model."""
    torch.manual_seed(1)
    folder.mkdir(parents=True)
    Embedder("conv-tiny", dim=16).eval().save_pretrained(folder / "model")
    (folder / "recipe.yaml").write_text(yaml.safe_dump({"data": data, "seed": seed}), "utf-8")
    return folder


def csv_run(folder: Path, counts: dict[str, dict[str, int]], **options: Any) -> Path:
    """A run on pictures of its own."""
    file = write_images(folder / "images", counts, **options)
    return make_run(folder / "run", {"name": "csv", "file": str(file)})


def read(file: Path) -> dict[str, Any]:
    """The document."""
    found: dict[str, Any] = json.loads(file.read_text("utf-8"))
    return found


def split_images(run: Path, split: str = "test") -> ImageTable:
    """The images of a split."""
    return load(yaml.safe_load((run / "recipe.yaml").read_text("utf-8"))["data"]).split(split)


def vectors_of(run: Path, pixels: Iterable[Any]) -> NDArray[np.float64]:
    """Embeddings of 8-bit pictures (height, width, 3), one by one."""
    model = load_model(str(run))
    found = []
    for picture in pixels:
        image = torch.from_numpy(np.array(picture)).permute(2, 0, 1)[None].float() / 255
        with torch.no_grad():
            found.append(model(image)[0].double().numpy())
    return np.stack(found)


def table_vectors(run: Path, table: ImageTable) -> NDArray[np.float64]:
    """Embeddings of a table."""
    return vectors_of(run, (table.source.image(int(position)) for position in table.positions))


def picture(run: Path, entry: dict[str, Any]) -> NDArray[np.uint8]:
    """The pixels of a picture that a document names."""
    pixels = np.array(Image.open(run / "artifacts" / entry["file"]))
    assert pixels.shape[:2] == (entry["height"], entry["width"])
    return pixels


def row_of(table: ImageTable, pixels: NDArray[np.uint8]) -> int:
    """Which image of a table a stored picture shows."""
    rows = [r for r in range(len(table)) if np.array_equal(table.source.image(int(table.positions[r])), pixels)]
    assert len(rows) == 1
    return rows[0]
