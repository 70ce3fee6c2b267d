from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from collected_runs import csv_run, picture, read, row_of, split_images, table_vectors

from holdfast.report import collect


def test_confusions_are_counted_by_hand(shown: Path) -> None:
    document = read(shown / "artifacts" / "exhibits.json")
    table = split_images(shown)
    vectors, names = table_vectors(shown, table), [table.class_names[i] for i in table.labels]
    away = np.sqrt(((vectors[:, None] - vectors[None]) ** 2).sum(-1))
    np.fill_diagonal(away, np.inf)
    found = away.argmin(1)
    times = Counter((names[i], names[j]) for i, j in enumerate(found) if names[i] != names[j])
    assert times, "the case must hold errors"
    shown_pairs = {(entry["a"], entry["b"]): entry["times"] for entry in document["confusions"]}
    assert sorted(shown_pairs.values(), reverse=True) == sorted(times.values(), reverse=True)[:12]
    for entry in document["confusions"]:
        pair = (entry["a"], entry["b"])
        assert times[pair] == entry["times"]
        assert entry["share"] == pytest.approx(100 * entry["times"] / names.count(entry["a"]))
        query, match = (row_of(table, picture(shown, each)) for each in entry["pictures"])
        assert (names[query], names[match]) == pair
        rivals = [i for i in range(len(names)) if (names[i], names[found[i]]) == pair]
        assert query == min(rivals, key=lambda i: away[i, found[i]])
        assert match == found[query]
    ordered = [entry["times"] for entry in document["confusions"]]
    assert ordered == sorted(ordered, reverse=True)


def test_a_model_that_never_errs_has_no_confusions(tmp_path: Path) -> None:
    run = csv_run(tmp_path, {"test": {"a": 3, "b": 3}}, noise=1)
    assert read(collect(run, images=False))["confusions"] == []
