from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from collected_runs import picture, read, row_of, split_images, table_vectors, vectors_of
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from holdfast.data import ImageTable
from holdfast.report.sections.strips import MATCHES, STRIPS, shared_out


def check_matches(
    matches: list[dict[str, Any]],
    vector: NDArray[np.float64],
    gallery: NDArray[np.float64],
    table: ImageTable,
    run: Path,
    label: str,
    own: int | None,
) -> None:
    """Against every distance, sorted."""
    away = np.sqrt(((gallery - vector) ** 2).sum(1))
    order = [row for row in np.argsort(away, kind="stable") if row != own][:MATCHES]
    assert len(matches) == MATCHES
    assert [row_of(table, picture(run, match["picture"])) for match in matches] == order
    assert [match["distance"] for match in matches] == pytest.approx(away[order], abs=1e-5)
    assert [match["label"] for match in matches] == [table.class_names[table.labels[row]] for row in order]
    assert [match["right"] for match in matches] == [match["label"] == label for match in matches]


def test_matches_are_the_nearest_images_before_and_after(shown: Path) -> None:
    document = read(shown / "artifacts" / "exhibits.json")
    table = split_images(shown)
    gallery = table_vectors(shown, table)
    assert len(document["strips"]) == STRIPS
    for strip in document["strips"]:
        query = picture(shown, strip["query"])
        row = row_of(table, query)
        assert strip["label"] == table.class_names[table.labels[row]]
        check_matches(strip["matches"], gallery[row], gallery, table, shown, strip["label"], row)
        attacked = picture(shown, strip["attacked"]["picture"])
        (vector,) = vectors_of(shown, [attacked])  # as a reader of the stored file would
        check_matches(strip["attacked"]["matches"], vector, gallery, table, shown, strip["label"], row)


def test_an_attacked_picture_stays_within_its_budget(shown: Path) -> None:
    for strip in read(shown / "artifacts" / "exhibits.json")["strips"]:
        attacked = strip["attacked"]
        change = picture(shown, attacked["picture"]).astype(float) - picture(shown, strip["query"])
        assert attacked["eps_pixel"] == pytest.approx(8 / 255)
        assert 0 < np.abs(change).max() <= 8
        assert attacked["amplified"] == pytest.approx(127.5 / np.abs(change).max(), rel=1e-5)
        expected = 127.5 + change * attacked["amplified"]
        assert np.abs(picture(shown, attacked["change"]) - expected).max() <= 0.5 + 1e-3


def test_queries_search_the_gallery_and_nothing_else(shop: Path) -> None:
    document = read(shop / "artifacts" / "exhibits.json")
    queries, table = split_images(shop, "query"), split_images(shop, "gallery")
    gallery = table_vectors(shop, table)
    for strip in document["strips"]:
        query = picture(shop, strip["query"])
        row_of(queries, query)
        (vector,) = vectors_of(shop, [query])
        check_matches(strip["matches"], vector, gallery, table, shop, strip["label"], None)


def test_strips_stand_for_what_happened(shown: Path) -> None:
    document = read(shown / "artifacts" / "exhibits.json")
    outcome = document["outcomes"]
    assert sum(outcome.values()) == len(split_images(shown))

    def kind(strip: dict[str, Any]) -> str:
        if not strip["matches"][0]["right"]:
            return "wrong"
        return "held" if strip["attacked"]["matches"][0]["right"] else "fooled"

    expected = dict(zip(outcome, shared_out(list(outcome.values()), STRIPS), strict=True))
    assert Counter(kind(strip) for strip in document["strips"]) == Counter(expected)


@settings(deadline=None)
@given(st.lists(st.integers(0, 40), min_size=1, max_size=4), st.integers(4, 12))
def test_places_are_shared_out_fairly(sizes: list[int], places: int) -> None:
    given_places = shared_out(sizes, places)
    assert sum(given_places) == min(places, sum(sizes))
    for size, have in zip(sizes, given_places, strict=True):
        assert min(size, 1) <= have <= size
    for size, have in zip(sizes, given_places, strict=True):
        for other, others in zip(sizes, given_places, strict=True):
            assert not (size > other and have < others), "the more frequent never gets fewer"
