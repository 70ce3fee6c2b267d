from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from collected_runs import csv_run, read, split_images
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from holdfast.report import collect
from holdfast.report.sections.map import framed, principal


def test_the_map_places_each_image_with_its_tile(shown: Path) -> None:
    found = read(shown / "artifacts" / "exhibits.json")["map"]
    table = split_images(shown)
    assert found["method"] == "t-SNE"
    assert len(found["points"]) == len(found["labels"]) == len(table)
    names = [found["names"][label] for label in found["labels"]]
    assert names == [table.class_names[i] for i in table.labels]
    sprite = found["sprite"]
    sheet = Image.open(shown / "artifacts" / sprite["file"])
    tile, columns = sprite["tile"], sprite["columns"]
    assert sheet.size == (tile * columns, tile * -(-len(table) // columns))
    for row in (0, columns - 1, columns, len(table) - 1):
        left, top = tile * (row % columns), tile * (row // columns)
        drawn = np.array(sheet.crop((left, top, left + tile, top + tile)).resize((8, 8)), float)
        gaps = [
            np.abs(drawn - np.array(Image.fromarray(table.source.image(int(p))).resize((8, 8)), float)).mean()
            for p in table.positions
        ]
        assert int(np.argmin(gaps)) == row


def test_images_of_a_class_lie_together(tmp_path: Path) -> None:
    run = csv_run(tmp_path, {"test": dict.fromkeys("abcde", 8)}, noise=10)
    found = read(collect(run, images=False))["map"]
    points, labels = np.array(found["points"]), np.array(found["labels"])
    away = np.sqrt(((points[:, None] - points[None]) ** 2).sum(-1))
    np.fill_diagonal(away, np.inf)
    assert (labels[away.argmin(1)] == labels).all()
    assert found["sprite"] is None


def test_few_images_are_laid_out_by_their_principal_plane(tmp_path: Path) -> None:
    run = csv_run(tmp_path, {"test": {"a": 4, "b": 4}})
    assert read(collect(run, images=False))["map"]["method"] == "PCA"


def test_principal_plane_holds_the_most_variance() -> None:
    vectors = torch.randn(20, 6, dtype=torch.float64)
    points = principal(vectors).numpy()
    values = np.linalg.eigvalsh(np.cov(vectors.numpy().T))
    assert points.var(0, ddof=1) == pytest.approx(values[::-1][:2])
    assert principal(torch.ones(4, 1, dtype=torch.float64)).tolist() == [[0, 0]] * 4


@settings(deadline=None)
@given(st.lists(st.tuples(st.floats(-1e3, 1e3), st.floats(-1e3, 1e3)), min_size=1, max_size=12))
def test_the_frame_keeps_the_shape(points: list[tuple[float, float]]) -> None:
    given_points = torch.tensor(points, dtype=torch.float64)
    inside = framed(given_points)
    assert bool(((inside >= 0) & (inside <= 1)).all())
    span = float((given_points.amax(0) - given_points.amin(0)).max())
    if span > 1e-6:
        torch.testing.assert_close(torch.pdist(inside) * span, torch.pdist(given_points), atol=1e-6, rtol=1e-6)
