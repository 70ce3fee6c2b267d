from __future__ import annotations

import subprocess
import sys
from functools import partial
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.nn.functional import normalize

from holdfast.errors import DataError
from holdfast.metrics import base, ranks, retrieval
from holdfast.metrics.base import EmbeddedSet
from holdfast.metrics.ranks import match_ranks
from peak_memory import PEAK, needs_proc

KS = (1, 2, 3)


def by_loops(
    queries: list[list[int]],
    labels: list[int],
    gallery: list[list[int]] | None,
    gallery_labels: list[int] | None,
    groups: list[int] | None,
    gallery_groups: list[int] | None,
) -> dict[str, float | None]:
    """Sort the whole gallery for each query and walk down the list."""
    alone = gallery is None
    items = queries if gallery is None else gallery
    item_labels = labels if gallery_labels is None else gallery_labels
    item_groups = groups if alone else gallery_groups
    rows = []
    for i, query in enumerate(queries):
        ranking = []
        for j, item in enumerate(items):
            if alone and i == j:
                continue
            same_group = groups is not None and item_groups is not None and groups[i] == item_groups[j]
            if labels[i] == item_labels[j] and same_group:
                continue
            ranking.append((sum((a - b) ** 2 for a, b in zip(query, item, strict=True)), j))
        hits = [item_labels[j] == labels[i] for _, j in sorted(ranking)]
        matches = sum(hits)
        if matches == 0:
            continue
        row = [float(any(hits[:k])) for k in KS]
        for window, size in ((len(hits), matches), (matches, matches), (matches + 1, matches + 1)):
            total, seen = 0.0, 0
            for position, hit in enumerate(hits[:window], start=1):
                seen += hit
                total += hit * seen / position
            row.append(total / size)
        rows.append(row)
    keys = [*(f"R@{k}" for k in KS), "mAP", "mAP@R", "mAP@C"]
    if not rows:
        return dict.fromkeys(keys)
    return {key: 100 * sum(column) / len(rows) for key, column in zip(keys, zip(*rows, strict=True), strict=True)}


@st.composite
def small_sets(draw: st.DrawFn) -> dict[str, Any]:
    """Few whole-number vectors, so that ties and duplicates abound and every distance is exact."""
    dim = draw(st.integers(1, 3))

    def some(largest: int) -> tuple[list[list[int]], list[int], list[int]]:
        count = draw(st.integers(1, largest))
        numbers = st.integers(-2, 2)
        vectors = draw(st.lists(st.lists(numbers, min_size=dim, max_size=dim), min_size=count, max_size=count))
        labels = draw(st.lists(st.integers(0, 3), min_size=count, max_size=count))
        cameras = draw(st.lists(st.integers(0, 2), min_size=count, max_size=count))
        return vectors, labels, cameras

    queries, labels, groups = some(10)
    gallery, gallery_labels, gallery_groups = some(12)
    searched, grouped = draw(st.booleans()), draw(st.booleans())
    return {
        "queries": queries,
        "labels": labels,
        "gallery": gallery if searched else None,
        "gallery_labels": gallery_labels if searched else None,
        "groups": groups if grouped else None,
        "gallery_groups": gallery_groups if grouped and searched else None,
    }


def tensor(values: list[Any] | None, dtype: torch.dtype = torch.int64) -> Tensor | None:
    return None if values is None else torch.tensor(values, dtype=dtype)


@settings(max_examples=150, deadline=None)
@given(
    case=small_sets(),
    chunk=st.none() | st.integers(1, 4),
    dtype=st.sampled_from([torch.float32, torch.float64, torch.bfloat16]),
    few=st.sampled_from([0, 3, 16]),
    block=st.sampled_from([base.BLOCK, 13]),
)
def test_equals_loops_with_ties_duplicates_groups_and_gallery(
    case: dict[str, Any], chunk: int | None, dtype: torch.dtype, few: int, block: int
) -> None:
    expected = by_loops(**case)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ranks, "WIDTH", 2)  # a large gallery is one of three, and up to `few` matches are counted
        patch.setattr(ranks, "FEW", few)
        patch.setattr(base, "BLOCK", block)
        ask = partial(
            retrieval,
            torch.tensor(case["queries"], dtype=dtype),
            torch.tensor(case["labels"]),
            KS,
            gallery=tensor(case["gallery"], dtype),
            gallery_labels=tensor(case["gallery_labels"]),
            groups=tensor(case["groups"]),
            gallery_groups=tensor(case["gallery_groups"]),
            chunk=chunk,
        )
        measured, recalls = ask(), ask(averages=False)
    assert measured == pytest.approx(expected, abs=1e-9)
    assert recalls == {key: value for key, value in measured.items() if key.startswith("R@")}
    assert set(measured.reasons) == {key for key, value in measured.items() if value is None}


def blobs(count: int = 240, classes: int = 12, dim: int = 16, spread: float = 0.35) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(7)
    labels = torch.randint(classes, (count,), generator=generator)
    centres = normalize(torch.randn(classes, dim, generator=generator), dim=1)
    return normalize(centres[labels] + spread * torch.randn(count, dim, generator=generator), dim=1), labels


@pytest.mark.parametrize("split", [False, True])
def test_equals_pytorch_metric_learning(split: bool) -> None:
    calculators = pytest.importorskip("pytorch_metric_learning.utils.accuracy_calculator")
    pytest.importorskip("faiss")
    include = ("precision_at_1", "mean_average_precision", "mean_average_precision_at_r")
    calculator = calculators.AccuracyCalculator(include=include, k=None)
    vectors, labels = blobs()
    if split:
        theirs = calculator.get_accuracy(vectors[:90], labels[:90], vectors[90:], labels[90:])
        ours = retrieval(vectors[:90], labels[:90], gallery=vectors[90:], gallery_labels=labels[90:])
    else:
        theirs = calculator.get_accuracy(vectors, labels)
        ours = retrieval(vectors, labels)
    assert 20 < theirs["precision_at_1"] * 100 < 99  # neither trivial nor hopeless, so that agreement means something
    for key, name in zip(("R@1", "mAP", "mAP@R"), include, strict=True):
        assert ours[key] == pytest.approx(100 * theirs[name], abs=1e-4)


def told_apart() -> tuple[Tensor, Tensor]:
    """Blobs in which no query has two items so alike in distance that the rounding of a product decides their order."""
    vectors, labels = blobs(48)
    halves = torch.cdist(vectors.double(), vectors.double()).square() / 2
    gaps = halves.fill_diagonal_(torch.inf).sort(1).values[:, :-1].diff(dim=1)
    assert gaps.min() > 1e-5
    return vectors, labels


@pytest.mark.parametrize("chunk", [1, 7, 20, 1000])
def test_chunks_do_not_matter(chunk: int) -> None:
    vectors, labels = told_apart()
    assert retrieval(vectors, labels, chunk=chunk) == pytest.approx(retrieval(vectors, labels), abs=1e-9)


def by_query(data: EmbeddedSet) -> dict[int, list[int]]:
    """The ranks of each query's matches, padding left out."""
    return {
        query: row[:count]
        for block in match_ranks(data)
        for query, row, count in zip(*(part.tolist() for part in block), strict=True)
    }


@pytest.mark.parametrize("alone", [False, True])
def test_counting_ranks_as_sorting_does(monkeypatch: pytest.MonkeyPatch, alone: bool) -> None:
    monkeypatch.setattr(ranks, "WIDTH", 1000)
    monkeypatch.setattr(base, "BLOCK", 300_000)
    generator = torch.Generator().manual_seed(4)
    vectors = (16 * torch.randn(3077, 8, generator=generator)).round()  # whole numbers, whose products are exact
    vectors[1::3] = vectors[: len(vectors[1::3])].clone()  # copies in other places, most of other classes
    labels = torch.randint(700, (3077,), generator=generator)
    data = EmbeddedSet.of(vectors, labels) if alone else EmbeddedSet.of(vectors[:400], labels[:400], vectors, labels)
    counted = by_query(data)
    monkeypatch.setattr(ranks, "FEW", -1)
    assert counted == by_query(data)


def test_order_of_images_does_not_matter() -> None:
    vectors, labels = told_apart()
    order = torch.randperm(len(labels), generator=torch.Generator().manual_seed(1))
    assert retrieval(vectors[order], labels[order]) == pytest.approx(retrieval(vectors, labels), abs=1e-9)


def test_perfect_embedding() -> None:
    labels = torch.arange(5).repeat_interleave(4)
    values = retrieval(torch.eye(5)[labels], labels)
    assert values["R@1"] == values["mAP"] == values["mAP@R"] == pytest.approx(100)
    assert values["mAP@C"] == pytest.approx(75)  # three matches in a class of four


def test_random_embedding_is_at_chance() -> None:
    generator = torch.Generator().manual_seed(3)
    vectors, labels = torch.randn(2000, 32, generator=generator), torch.arange(2000) % 4
    values = retrieval(vectors, labels)
    assert values["R@1"] == pytest.approx(100 * 499 / 1999, abs=5)
    assert values["mAP"] == pytest.approx(25, abs=1.5)


def test_an_identical_second_image_is_found() -> None:
    vectors = torch.tensor([[0.0, 1.0], [0.0, 1.0], [1.0, 0.0], [-1.0, 0.0]])
    assert retrieval(vectors, torch.tensor([0, 0, 1, 1]))["R@1"] == 50


def test_vectors_of_any_length_are_ranked_by_distance() -> None:
    vectors = torch.tensor([[1.0, 0.0], [10.0, 0.0], [1.0, 1.0], [10.0, 1.0]])
    assert retrieval(vectors, torch.tensor([0, 1, 0, 1]))["R@1"] == 100  # by angle it would be 0


def test_float64_ranks_what_float32_cannot_tell_apart() -> None:
    vectors = 10 + torch.tensor([[0.0], [1e-5], [3e-5], [3.5e-5]], dtype=torch.float64)
    assert retrieval(vectors, torch.tensor([0, 0, 1, 1]))["R@1"] == 100


def test_gradients_and_label_types_are_accepted() -> None:
    vectors, labels = blobs(40, 4)
    assert retrieval(vectors.requires_grad_(), labels.int()) == retrieval(vectors.detach(), labels)


def test_without_a_possible_match_nothing_is_a_number() -> None:
    values = retrieval(torch.eye(3), torch.arange(3))
    assert set(values.values()) == {None}
    assert set(values.reasons) == set(values) == {"R@1", "R@2", "R@4", "R@8", "mAP", "mAP@R", "mAP@C"}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"labels": torch.arange(2)}, "labels must be 3 integers"),
        ({"labels": torch.rand(3)}, "labels must be 3 integers"),
        ({"embeddings": torch.full((3, 3), torch.nan)}, "NaN"),
        ({"embeddings": torch.zeros(3)}, "shape"),
        ({"embeddings": torch.zeros(0, 3), "labels": torch.arange(0)}, "shape"),
        ({"gallery": torch.eye(3)}, "gallery_labels"),
        ({"gallery": torch.eye(2), "gallery_labels": torch.arange(2)}, "dims"),
        ({"gallery": torch.eye(3), "gallery_labels": torch.arange(3), "groups": torch.arange(3)}, "gallery_groups"),
        ({"gallery_groups": torch.arange(3)}, "gallery_groups"),
        ({"ks": (0, 1)}, "R@k"),
        ({"chunk": 0}, "chunk"),
    ],
)
def test_mistakes_get_one_line(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(DataError, match=message) as caught:
        retrieval(**({"embeddings": torch.eye(3), "labels": torch.arange(3)} | arguments))
    assert "\n" not in str(caught.value)


def test_blocks_stay_small_when_a_class_is_huge(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(base, "BLOCK", 5_000)
    data = EmbeddedSet.of(torch.randn(500, 4, generator=torch.Generator().manual_seed(0)), torch.arange(500) % 2)
    shapes = [ranks.shape for _, ranks, _ in match_ranks(data)]
    assert sum(rows for rows, _ in shapes) == 500
    assert max(rows for rows, _ in shapes) * 500 <= 5_000
    assert max(width for _, width in shapes) == 250


@pytest.mark.slow
@needs_proc
def test_stanford_online_products_fits_in_four_gigabytes() -> None:
    program = f"""{PEAK}
import torch
from holdfast import metrics
generator = torch.Generator().manual_seed(0)
vectors = torch.nn.functional.normalize(torch.randn(60_502, 512, generator=generator), dim=1)
metrics.evaluate(vectors, torch.arange(60_502) % 11_316, coarse=torch.arange(60_502) % 2, clusters=100)
print(peak())
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert float(done.stdout) < 4096
