from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from collected_runs import read, split_images, table_vectors
from numpy.typing import NDArray


def counted(
    queries: NDArray[np.float64], labels: list[str], gallery: NDArray[np.float64], names: list[str], same: bool
) -> list[float]:
    """A plain loop over pairs."""
    counts = [0] * 40
    for i, query in enumerate(queries):
        for j, item in enumerate(gallery):
            if (gallery is queries and i == j) or (labels[i] == names[j]) != same:
                continue
            counts[min(39, int(np.sqrt(((query - item) ** 2).sum()) / 0.05))] += 1
    return [count / sum(counts) for count in counts]


def test_histogram_counts_every_pair(shown: Path) -> None:
    found = read(shown / "artifacts" / "exhibits.json")["distances"]
    table = split_images(shown)
    vectors, names = table_vectors(shown, table), [table.class_names[i] for i in table.labels]
    assert found["edges"] == pytest.approx([0.05 * i for i in range(41)])
    for key, same in (("positive", True), ("negative", False)):
        assert found[key] == pytest.approx(counted(vectors, names, vectors, names, same), abs=1e-12)


def test_histogram_of_queries_against_a_gallery(shop: Path) -> None:
    found = read(shop / "artifacts" / "exhibits.json")["distances"]
    sides = [split_images(shop, split) for split in ("query", "gallery")]
    vectors = [table_vectors(shop, side) for side in sides]
    names = [[side.class_names[i] for i in side.labels] for side in sides]
    for key, same in (("positive", True), ("negative", False)):
        assert found[key] == pytest.approx(counted(vectors[0], names[0], vectors[1], names[1], same), abs=1e-12)


def test_the_attack_drives_queries_from_their_class(shown: Path) -> None:
    found = read(shown / "artifacts" / "exhibits.json")["distances"]
    middles = np.array(found["edges"][:-1]) + 0.025
    assert sum(found["attacked_positive"]) == pytest.approx(1)
    assert sum(found["attacked_negative"]) == pytest.approx(1)
    assert middles @ found["attacked_positive"] > middles @ found["positive"]
