"""The heads of shipped recipes: which paper and table, which datasets."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from holdfast.cli.entry import main
from holdfast.data import names
from holdfast.training import recipe_files
from holdfast.training.recipe import load_recipe
from holdfast.training.recipe_files import PAPERS, About, about, shipped

BENCHMARKS = ("cub", "cars", "sop", "inshop")
HEAD = "# What it is (needs a GPU).\n"


@pytest.mark.parametrize(
    ("name", "text", "found"),
    [
        (
            "one",
            f"{HEAD}# paper: ADML, Tables 2 to 5 and Figure 1; data: cub, cars\n",
            About(
                summary="What it is (needs a GPU).",
                kind="paper",
                paper="ADML",
                where="Tables 2 to 5 and Figure 1",
                data=("cub", "cars"),
            ),
        ),
        (
            "two",
            f"{HEAD}# tuned: gs-cub\nbase: gs-cub\n",
            About(
                summary="What it is (needs a GPU).",
                kind="tuned",
                paper="GS",
                where=about("gs-cub").where,
                data=("cub",),
                tuned="gs-cub",
            ),
        ),
        ("two-pocket", HEAD, About(summary="What it is (needs a GPU).", kind="pocket")),
        ("two-pockets", HEAD, About(summary="What it is (needs a GPU).", kind="ours")),
    ],
)
def test_a_head_is_read(name: str, text: str, found: About, monkeypatch: pytest.MonkeyPatch) -> None:
    shipped_text = recipe_files._shipped_text
    monkeypatch.setattr(recipe_files, "_shipped_text", lambda asked: text if asked == name else shipped_text(asked))
    try:
        assert about(name) == found
    finally:
        about.cache_clear()


@pytest.mark.parametrize("name", shipped())
def test_what_a_head_says_is_so(name: str) -> None:
    known = about(name)
    assert ("-tuned" in name) == (known.kind == "tuned")
    if known.kind in ("paper", "tuned"):
        assert known.paper in PAPERS
        assert known.where.startswith(("Table", "Figure", "Section", "Appendix", "released code"))
        assert set(known.data) <= set(names())
        assert load_recipe(name).plain()["data"]["name"] in known.data


@pytest.mark.parametrize(
    ("name", "data"), [(name, data) for name in shipped() if about(name).kind == "paper" for data in about(name).data]
)
def test_a_papers_recipe_is_one_command_on_each_of_its_datasets(name: str, data: str) -> None:
    plain = load_recipe(name, f"{data}:there").plain()
    assert (plain["data"]["name"], plain["data"]["root"]) == (data, "there")
    if data in BENCHMARKS:
        assert plain["data"]["validation"] == 0, "all training classes"
        assert plain["test_curve"]
        assert plain["model"]["weights"] == "imagenet"
    own = {other for other in shipped() if other.endswith(f"-{data}") and other.removesuffix(f"-{data}") == name}
    assert own == set(), f"{own} has the setting for {data}"


def test_online_products_and_in_shop_have_recipes_of_every_paper_that_has_them() -> None:
    found = {data: {about(name).paper for name in shipped() if data in about(name).data} for data in BENCHMARKS}
    assert {"ADML", "GS", "HM", "MDProp"} <= found["sop"]
    assert {"ADML", "GS"} <= found["inshop"]


def test_the_list_goes_paper_by_paper_and_small_recipes_come_last(capsys: pytest.CaptureFixture[str]) -> None:
    main(["list", "recipes"])
    order = [about(line.split()[0]) for line in capsys.readouterr().out.splitlines()]
    kinds = ["paper" if known.kind == "tuned" else known.kind for known in order]
    assert kinds == sorted(kinds, key=["paper", "ours", "pocket"].index)
    papers = [known.paper for known in order if known.paper]
    assert papers == sorted(papers, key=PAPERS.index)


def test_few_recipes_for_photographs_are_of_no_paper() -> None:
    ours = ["fitted-head", "free-hm", "robust-accurate", "robust-cub", "robust-fast"]
    assert [name for name in shipped() if about(name).kind == "ours"] == ours


def test_a_head_is_no_part_of_the_recipe_and_is_not_inherited(tmp_path: Path) -> None:
    (tmp_path / "own.yaml").write_text("# paper: ADML, Table 2; data: cub\nbase: pocket\n")
    assert load_recipe(str(tmp_path / "own.yaml")) == load_recipe("pocket")


def test_the_list_names_paper_table_and_data(capsys: pytest.CaptureFixture[str]) -> None:
    main(["list", "recipes"])
    lines = {line.split()[0]: line for line in capsys.readouterr().out.splitlines()}
    assert set(lines) == set(shipped())
    assert "[GS, Table 5 (cub)]" in lines["gs-cub"]
    assert "[pocket]" in lines["gs-pocket"]
    assert "[tuned from resnet50-ms]" in lines["resnet50-ms-tuned"]
    main(["list", "recipes", "--json"])
    found = json.loads(capsys.readouterr().out)
    assert set(found) == set(shipped())
    assert {key: found["gs-cub"][key] for key in ("kind", "paper", "where", "data")} == {
        "kind": "paper",
        "paper": "GS",
        "where": "Table 5",
        "data": ["cub"],
    }


@pytest.mark.parametrize(
    ("recipe", "data", "kept"),
    [
        ("eps-omniglot", "omniglot:there", {"labels": "coarse", "root": "there"}),
        ("resnet50-ms", "cub:there", {"validation": 0, "root": "there"}),
        ("resnet50-ms", "cars:there", {"validation": 0, "labels": "fine"}),
        ("eps-omniglot", "glyphs", {"labels": "fine"}),
        ("resnet50-ms", {"name": "cub", "root": "there", "validation": 0.2}, {"validation": 0.2}),
    ],
)
def test_another_place_or_dataset_keeps_what_the_recipe_says_of_data(recipe: str, data: str, kept: dict) -> None:
    found = load_recipe(recipe, data).plain()["data"]
    assert {key: found[key] for key in kept} == kept
