from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from holdfast import console, seeds
from holdfast.data import ImageStore
from holdfast.search import Detector, Searcher, ask, create_index, detector_of, read_index, statistics
from holdfast.search.embedding import NOISE, PROBES, embed_images, fingerprint_images, measure_moves
from holdfast.search.querying import SIGNS
from holdfast.search.store import MANIFEST
from holdfast.view import View
from index_cases import index_of, made, picture_table, pictures, small_model, unit_vectors


def clean(count: int, seed: int) -> NDArray[np.float32]:
    """Four skewed, dependent statistics."""
    draw = np.random.default_rng(seed)
    shared = draw.gamma(2, 1, (count, 1))
    return (shared + draw.gamma([1, 2, 3, 4], 1, (count, 4))).astype(np.float32)


@pytest.mark.parametrize("rate", [0.01, 0.05, 0.2])
def test_clean_queries_are_marked_at_the_rate_asked_for(rate: float) -> None:
    found = [
        np.mean([verdict.tampered for verdict in Detector(clean(500, seed), rate).judge(clean(500, 1000 + seed))])
        for seed in range(20)
    ]
    # 10,000 verdicts in 20 calibrations: a calibration's own rate varies by sqrt(rate / 500), their mean by a fifth.
    assert rate * 0.6 < np.mean(found) < rate * 1.4


@settings(max_examples=40, deadline=None)
@given(column=st.integers(0, 3), count=st.integers(100, 400), seed=st.integers(0, 50))
def test_the_odd_statistic_is_named(column: int, count: int, seed: int) -> None:
    values = clean(count, seed)
    odd = np.median(values, 0)[None].copy()
    odd[0, column] = 100 * values[:, column].max()
    (verdict,) = Detector(values).judge(odd)
    assert verdict.tampered
    assert verdict.why == (SIGNS[column],)
    assert str(verdict) == f"looks tampered with ({SIGNS[column]})"


def test_small_values_are_no_sign() -> None:
    (verdict,) = Detector(clean(200, 0)).judge(np.full((1, 4), -1e6, np.float32))
    assert not verdict.tampered
    assert str(verdict) == ""


def test_statistics_are_those_of_a_loop() -> None:
    index = index_of(unit_vectors(40, 6))
    queries, moves = unit_vectors(7, 6, 1), clean(7, 2)
    queries[0] = index.vectors[5]  # the very image of the index
    fingerprints = np.zeros((7, 16), np.uint8)
    fingerprints[0] = index.images.fingerprints[5]
    found = statistics(index, queries, moves[:, :2], fingerprints)
    for row, query in enumerate(queries.astype(np.float64)):
        apart = sorted(
            float(np.linalg.norm(vector - query))
            for item, vector in enumerate(index.vectors.astype(np.float64))
            if not (row == 0 and item == 5)
        )
        np.testing.assert_allclose(found[row], [apart[0], apart[1] - apart[0], *moves[row, :2]], atol=1e-5)


def test_moves_are_those_of_a_loop_and_need_no_company() -> None:
    model, pixels = small_model(), pictures(5)
    store = ImageStore(picture_table(pixels), View(32), "cpu")
    vectors, _ = embed_images(model, store, np.arange(5), batch=3)
    moves = measure_moves(model, store, np.arange(5), vectors, batch=3, seed=4, copies=6)
    noise = NOISE * torch.randn(2, 3, 32, 32, generator=seeds.generator(4, "tampering"))
    for row in range(5):
        image = torch.from_numpy(pixels[row]).permute(2, 0, 1)[None].float() / 255
        padded = np.pad(pixels[row], ((1, 1), (1, 1), (0, 0)), mode="edge")
        shifted = [padded[a : a + 32, b : b + 32] for a, b in ((0, 1), (1, 0), (2, 1), (1, 2))]
        with torch.no_grad():
            z = model(image)
            noisy = [(model((image + one).clamp(0, 1)) - z).norm().item() for one in noise]
            moved = [
                (model(torch.from_numpy(s.copy()).permute(2, 0, 1)[None].float() / 255) - z).norm().item()
                for s in shifted
            ]
        np.testing.assert_allclose(moves[row, 0], np.mean(noisy), rtol=1e-3)
        np.testing.assert_allclose(moves[row, 1], np.mean(moved), rtol=1e-3)
        alone, _ = embed_images(model, store, np.array([row]))
        np.testing.assert_allclose(alone[0], vectors[row], atol=1e-6)
        moved_alone = measure_moves(model, store, np.array([row]), alone, seed=4, copies=6)
        np.testing.assert_allclose(moved_alone[0], moves[row], rtol=1e-3)


def test_an_index_takes_one_pass_an_image_and_three_for_each_of_a_sample(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model, seen = small_model(), []
    model.register_forward_hook(lambda _, inputs, __: seen.append(len(inputs[0])))
    with console.shown():
        index, _ = create_index(tmp_path / "index", model, picture_table(pictures(20)), calibrate=5)
    assert sum(seen) == 20 + 3 * 5 + PROBES
    assert len(index.clean) == 5
    assert "3 changed copies of 5 of 20 images" in capsys.readouterr().err


def test_queries_of_an_older_index_are_changed_as_often_as_its_images_were(tmp_path: Path) -> None:
    folder = tmp_path / "index"
    create_index(folder, small_model(), picture_table(pictures(120)))
    manifest = json.loads((folder / MANIFEST).read_text("utf-8"))
    assert manifest.pop("copies") == 3
    (folder / MANIFEST).write_text(json.dumps(manifest), "utf-8")  # as 0.1 wrote it
    index, model, seen = read_index(folder), small_model(), []
    assert index.copies == 6
    model.register_forward_hook(lambda _, inputs, __: seen.append(len(inputs[0])))
    ask(Searcher(index), model, ImageStore(picture_table(pictures(4, seed=8)), View(32), "cpu"))
    assert sum(seen) == 4 + 6 * 4


def test_an_index_that_cannot_tell_says_why(tmp_path_factory: pytest.TempPathFactory) -> None:
    few = made(tmp_path_factory.mktemp("a") / "index", 30)
    queries = ImageStore(picture_table(pictures(2, seed=8)), View(32), "cpu")
    answers = ask(Searcher(few), small_model(), queries)
    assert "30 clean images are too few for a false alarm rate of 0.01" in answers.unchecked
    assert answers.unchecked.endswith("add images to the index, or allow 0.033")
    assert ask(Searcher(few, false_alarms=0.033), small_model(), queries).unchecked == ""
    assert [answer.verdict for answer in answers.answers] == [None, None]
    assert ask(Searcher(few, false_alarms=0.1), small_model(), queries).unchecked == ""
    none = dataclasses.replace(few, clean=few.clean[:0])
    assert "not calibrated" in detector_of(none)[1]
    assert "too few" in detector_of(few, 0.0)[1]


def test_a_picture_unlike_all_others_is_marked_and_those_indexed_are_not(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    """Pictures that are alike, and one of noise: no attack, but off the calibrated range."""
    draw = np.random.default_rng(0)
    base = pictures(1)[0].astype(np.int64)
    alike = np.clip(base + draw.integers(-20, 20, (150, 32, 32, 3)), 0, 255).astype(np.uint8)
    model = small_model()
    index, _ = create_index(tmp_path_factory.mktemp("b") / "index", model, picture_table(alike), seed=1)
    strange = np.concatenate([pictures(1, seed=77), alike[:20]])
    store = ImageStore(picture_table(strange, first=500), View(32), "cpu")
    verdicts = [answer.verdict for answer in ask(Searcher(index), model, store).answers]
    assert verdicts[0] is not None
    assert SIGNS[0] in verdicts[0].why
    assert sum(verdict is not None and verdict.tampered for verdict in verdicts[1:]) <= 2
    assert fingerprint_images(store, np.arange(21), 7).shape == (21, 16)
