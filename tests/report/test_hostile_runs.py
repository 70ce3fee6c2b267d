"""Folders that a stranger sent: what is read of them, and that a comparison of them ends in a page."""

from __future__ import annotations

import json
import math
import re
import struct
from pathlib import Path
from typing import Any

import pytest
import yaml
from compared_runs import RECIPE, add_exhibits, make_run
from hypothesis import given
from hypothesis import strategies as st

from holdfast.report.compare_page import compare
from holdfast.report.comparison import read_comparison
from holdfast.run_files import batch_size, finite
from holdfast.run_folder import read_run

BOMB = "l0: &l0 [x, x]\n" + "".join(f"l{i}: &l{i} [{', '.join([f'*l{i - 1}'] * 10)}]\n" for i in range(1, 10))
ENDLESS = "1" + "0" * 400
HUGE = (1e308, -1e308, 10**307, 10**400, math.inf, math.nan, 5e-324, 0, -1)


def change(file: Path, **values: Any) -> None:
    file.write_text(json.dumps({**json.loads(file.read_text()), **values}))


def test_a_recipe_of_aliases_is_left_out_with_the_reason(tmp_path: Path) -> None:
    folder = make_run(tmp_path / "a")
    (folder / "recipe.yaml").write_text(BOMB)
    found = read_run(folder)
    keys, text = list(found.recipe), found.recipe_text  # pytest would write a failing `found` out without end
    assert (keys, text) == ([], "")
    assert len(found.damaged) == 1
    assert "recipe.yaml (line 2 repeats a value through an alias" in found.damaged[0]
    page = compare([folder, make_run(tmp_path / "b")], tmp_path / "compare.html").read_text("utf-8")
    assert "repeats a value through an alias" in page


@given(st.integers() | st.floats() | st.sampled_from([10**400, -(10**400), 2**1024 - 2**970, 2**1023]))
def test_finite_is_none_or_a_finite_float(value: float) -> None:
    known = finite(value)
    assert known is None or math.isfinite(known)
    assert known is not None or not -1.7e308 < value < 1.7e308


def test_keys_are_words_and_numbers_have_an_end(tmp_path: Path) -> None:
    folder = make_run(tmp_path / "a")
    hexadecimal = f"0x{'f' * 4000}"
    (folder / "recipe.yaml").write_text(f"1: a\nb: {{2020-01-01: c, null: d}}\nepochs: {hexadecimal}\n")
    assert read_run(folder).recipe == {"1": "a", "b": {"2020-01-01": "c", "None": "d"}, "epochs": math.inf}
    compare([folder, make_run(tmp_path / "b")], tmp_path / "compare.html")


def test_half_characters_are_replaced_everywhere(tmp_path: Path) -> None:
    flag = {"name": "a\ud800", "level": "warning", "why": "b\udfff", "advice": "c\ud800d"}
    folders = [make_run(tmp_path / "a", flags=[flag]), make_run(tmp_path / "b")]
    for folder in folders:
        add_exhibits(folder, 5, 0, [1, 2, 3, 4, 5, 6])
        exhibits = json.loads((folder / "artifacts" / "exhibits.json").read_text())
        exhibits["strips"][0]["label"] = "half \ud800"
        (folder / "artifacts" / "exhibits.json").write_text(json.dumps(exhibits))
    (folders[0] / "recipe.yaml").write_text(yaml.safe_dump(RECIPE) + 'note: {"\\ud800": "x\\udc00y"}\n')
    page = compare(folders, tmp_path / "compare.html").read_text("utf-8")
    assert "half ?" in page
    assert "c?d" in page
    assert "x?y" in page


@pytest.mark.parametrize("classes", HUGE)
@pytest.mark.parametrize("step", HUGE)
def test_costs_are_finite_or_unknown(tmp_path: Path, classes: float, step: float) -> None:
    folder = make_run(tmp_path / "a")
    batch = {"classes": classes, "per_class": 1e308}
    (folder / "recipe.yaml").write_text(
        f"batch: {json.dumps(batch).replace('Infinity', '.inf').replace('NaN', '.nan')}"
    )
    lines = [{"step": 10**307, "passes": 1e308, "images_per_second": 5e-324}, {"step": step, "passes": 10**307}]
    (folder / "metrics.jsonl").write_text(
        "".join(json.dumps({"images_per_second": 1, **line}) + "\n" for line in lines)
    )
    found = read_run(folder)
    for value in (batch_size(found.recipe), found.training_seconds, found.passes_per_step, found.images_seen):
        assert value is None or math.isfinite(value)


def test_a_header_of_endless_shapes_has_no_count(tmp_path: Path) -> None:
    folder = make_run(tmp_path / "a")
    for shape in ("[1e308, 1e308]", f"[{ENDLESS}]", "[" * 5000):
        header = f'{{"w": {{"shape": {shape}}}}}'.encode()
        (folder / "model" / "model.safetensors").write_bytes(struct.pack("<Q", len(header)) + header)
        assert read_run(folder).parameters is None


@pytest.mark.parametrize("value", HUGE)
def test_extreme_figures_leave_a_page(tmp_path: Path, value: float) -> None:
    folders = [make_run(tmp_path / name, seed=i) for i, name in enumerate("ab")]
    for folder in folders:
        change(folder / "evaluation.json", metrics={"R@1": value}, intervals={"R@1": [value, value]})
        worst = {"protocol": "thorough", "budget": {"eps_pixel": value}, "metrics": {"breaking_eps": value}}
        (folder / "audit-thorough-fixed.json").write_text(json.dumps(worst))
        add_exhibits(folder, 5, 0, [value] * 6)
        lines = [{"step": 1, "epoch": value, "validation": {"R@1": v}} for v in (value, 50.0, 1.0)]
        (folder / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    compare(folders, tmp_path / "compare.html")
    json.dumps(read_comparison(folders).plain(), allow_nan=False)


@pytest.mark.parametrize(
    "name", ["recipe.yaml", "evaluation.json", "audit.json", "metrics.jsonl", "artifacts", "model"]
)
def test_links_that_lead_out_are_not_read(tmp_path: Path, name: str) -> None:
    folder, other = make_run(tmp_path / "a"), make_run(tmp_path / "other")
    add_exhibits(folder, 5, 0, [1, 2, 3, 4, 5, 6])
    (folder / name).rename(tmp_path / "own")
    (folder / name).symlink_to(tmp_path / "own")
    found = read_run(folder)
    read = {
        "recipe.yaml": found.recipe,
        "evaluation.json": found.evaluation,
        "audit.json": found.audit,
        "metrics.jsonl": found.log,
        "artifacts": found.exhibits,
        "model": found.parameters,
    }
    assert [key for key, value in read.items() if not value] == [name]
    assert any("a link that leads out" in reason for reason in found.damaged) == (name != "model")
    compare([folder, other], tmp_path / "compare.html")


def test_links_within_the_folder_are_read(tmp_path: Path) -> None:
    folder = make_run(tmp_path / "a")
    (folder / "audit.json").rename(folder / "kept.json")
    (folder / "audit.json").symlink_to("kept.json")
    assert read_run(folder).audit
    assert not read_run(folder).damaged


def test_the_page_names_no_private_folder(tmp_path: Path) -> None:
    folders = [make_run(tmp_path / "a", ers=None), make_run(tmp_path / "b")]
    for folder, home in zip(folders, ("/home/me/secret", "C:\\Users\\me\\secret"), strict=True):
        sign = home[-7]
        data = {"name": "folder", "root": f"{home}{sign}photos"}
        recipe = {**RECIPE, "data": data, "init": f"{home}{sign}runs{sign}x{sign}last"}
        (folder / "recipe.yaml").write_text(yaml.safe_dump(recipe))
        change(folder / "evaluation.json", data=data)
    page = compare(folders, tmp_path / "compare.html").read_text("utf-8")
    assert "secret" not in page
    assert "…/last" in page
    assert re.search(r"data\.root \S*photos \(a\) and \S*photos \(b\)", page)
