"""Figures by class and the searches that fail, against every distance sorted."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from collected_runs import csv_run, picture, read, row_of, split_images, table_vectors

from holdfast.report import collect
from holdfast.report.sections.failures import CARDS, EACH, RETURNED


def lists(run: Path) -> tuple[list[str], list[list[int]], list[str]]:
    """Class of each image, the others by distance, and their names as files."""
    table = split_images(run)
    vectors, names = table_vectors(run, table), [table.class_names[i] for i in table.labels]
    away = np.sqrt(((vectors[:, None] - vectors[None]) ** 2).sum(-1))
    np.fill_diagonal(away, np.inf)
    return names, [order[:-1].tolist() for order in away.argsort(1, kind="stable")], list(table.ids)


def test_classes_are_counted_by_hand(shown: Path) -> None:
    names, order, _ = lists(shown)
    document = read(shown / "artifacts" / "exhibits.json")["classes"]
    assert sorted(entry["name"] for entry in document) == sorted(set(names))
    recalls = [entry["R@1"] for entry in document]
    assert recalls == sorted(recalls)
    assert recalls[0] < recalls[-1], "the case must hold classes of different difficulty"
    for entry in document:
        queries = [i for i, name in enumerate(names) if name == entry["name"]]
        right = [names[order[i][0]] == entry["name"] for i in queries]
        assert entry["images"] == len(queries)
        assert entry["R@1"] == pytest.approx(100 * np.mean(right))
        scores = []
        for i in queries:
            hits = [names[j] == entry["name"] for j in order[i][: len(queries) - 1]]
            scores.append(sum(sum(hits[: n + 1]) / (n + 1) for n, hit in enumerate(hits) if hit) / len(hits))
        assert entry["mAP@R"] == pytest.approx(100 * np.mean(scores))
        wrong = Counter(names[order[i][0]] for i, hit in zip(queries, right, strict=True) if not hit)
        assert entry["times"] == max(wrong.values(), default=0)
        assert wrong.get(entry["taken_for"], 0) == entry["times"]


def test_failures_are_the_wrong_searches_the_worst_first(shown: Path) -> None:
    names, order, ids = lists(shown)
    table = split_images(shown)
    document = read(shown / "artifacts" / "exhibits.json")["failures"]
    places = {ids[i]: 1 + next(n for n, j in enumerate(order[i]) if names[j] == names[i]) for i in range(len(names))}
    wrong = {image: place for image, place in places.items() if place > 1}
    assert (document["searches"], document["wrong"]) == (len(names), len(wrong))
    assert {row["image"]: row["place"] for row in document["listed"]} == wrong
    assert [row["place"] for row in document["listed"]] == sorted(wrong.values(), reverse=True)
    assert 0 < len(document["cards"]) <= CARDS
    assert max(Counter(card["label"] for card in document["cards"]).values()) <= EACH
    for card in document["cards"]:
        row = ids.index(card["image"])
        assert row == row_of(table, picture(shown, card["query"]))
        assert card["label"] == names[row]
        assert [row_of(table, picture(shown, m["picture"])) for m in card["matches"]] == order[row][:RETURNED]
        assert not card["matches"][0]["right"]
        assert (card["should"] is None) == (card["place"] <= RETURNED)
        if card["should"]:
            assert row_of(table, picture(shown, card["should"]["picture"])) == order[row][card["place"] - 1]
            assert card["should"]["right"]


def test_a_model_that_never_errs_has_no_failures(tmp_path: Path) -> None:
    run = csv_run(tmp_path, {"test": {"a": 3, "b": 3}}, noise=1)
    document: dict[str, Any] = read(collect(run, images=False))
    assert document["failures"] == {"searches": 6, "wrong": 0, "listed": [], "cards": []}
    assert [entry["R@1"] for entry in document["classes"]] == [100.0, 100.0]
