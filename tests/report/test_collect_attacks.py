"""The curve against the radius, and the triplet."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from collected_runs import picture, read, row_of, split_images, table_vectors

from holdfast.evaluation import evaluate
from holdfast.models import load_model
from holdfast.report import collect


def test_the_curve_starts_at_the_clean_figure_and_never_rises(shown: Path) -> None:
    found = read(shown / "artifacts" / "exhibits.json")["radius"]
    assert found["eps_pixel"] == pytest.approx([0, 1 / 255, 2 / 255, 4 / 255, 8 / 255, 16 / 255])
    clean = evaluate(load_model(str(shown)), split_images(shown)).values["R@1"]
    assert found["R@1"][0] == pytest.approx(clean)
    assert found["R@1"] == sorted(found["R@1"], reverse=True)
    assert found["R@1"][-1] < clean
    assert (found["images"], found["steps"]) == (len(split_images(shown)), 16)


def test_eps_and_steps_are_those_of_the_audit(shop: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    shutil.copytree(shop / "model", run / "model")
    shutil.copy(shop / "recipe.yaml", run)
    (run / "audit.json").write_text(json.dumps({"budget": {"eps_pixel": 4 / 255, "steps": 3}}))
    document = read(collect(run, images=False, limit=4))
    assert document["made"]["attack"] == {"goal": "misrank", "eps_pixel": 4 / 255, "steps": 3}
    assert document["radius"]["eps_pixel"] == pytest.approx([0, 0.5 / 255, 1 / 255, 2 / 255, 4 / 255, 8 / 255])
    assert (document["radius"]["images"], document["radius"]["steps"]) == (4, 3)
    (run / "audit.json").write_text(json.dumps({"budget": {"eps_pixel": 4 / 255, "steps": 3}, "images": 5}))
    assert read(collect(run, images=False))["radius"]["images"] == 5, "no more than the audit attacked"
    (run / "audit.json").write_text(json.dumps({"budget": {"eps_pixel": float("inf"), "steps": -1}}))
    assert read(collect(run, images=False, limit=4))["made"]["attack"]["eps_pixel"] == pytest.approx(8 / 255)


@pytest.mark.parametrize("case", ["shown", "shop"])
def test_the_triplet_is_nearest_positive_and_negative_and_becomes_harder(
    case: str, request: pytest.FixtureRequest
) -> None:
    run: Path = request.getfixturevalue(case)
    found = read(run / "artifacts" / "exhibits.json")["triplet"]
    asked, searched = ("test", "test") if case == "shown" else ("query", "gallery")
    queries, table = split_images(run, asked), split_images(run, searched)
    row = row_of(queries, picture(run, found["anchor"]))
    anchor, gallery = table_vectors(run, queries)[row], table_vectors(run, table)
    away = np.sqrt(((gallery - anchor) ** 2).sum(1))
    if asked == searched:
        away[row] = np.inf
    names = np.array([table.class_names[i] for i in table.labels])
    same = names == found["labels"][0]
    assert found["labels"][0] == queries.class_names[queries.labels[row]]
    assert found["labels"][1] == found["labels"][0] != found["labels"][2]
    assert found["before"]["ap"] == pytest.approx(away[same].min(), abs=1e-5)
    assert found["before"]["an"] == pytest.approx(away[~same].min(), abs=1e-5)
    assert row_of(table, picture(run, found["positive"])) == int(np.where(same, away, np.inf).argmin())
    assert row_of(table, picture(run, found["negative"])) == int(np.where(same, np.inf, away).argmin())
    hardness = {when: found[when]["ap"] - found[when]["an"] for when in ("before", "after")}
    assert hardness["after"] > hardness["before"]
