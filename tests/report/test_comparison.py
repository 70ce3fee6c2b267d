"""What a comparison reads, ranks and refuses to rank."""

from __future__ import annotations

import json
import statistics
from pathlib import Path
from typing import Any

import pytest
from compared_runs import add_exhibits, ers_audit, make_run

from holdfast.audit import ers_score
from holdfast.audit.ers import TERMS
from holdfast.errors import HoldfastError
from holdfast.report.compare_charts import LARGEST, SMALLEST, Disc, diameters, eps_curves, unbeaten
from holdfast.report.compare_page import recipe_differences, shared_queries
from holdfast.report.comparison import ModelComparison, read_comparison
from holdfast.report.runs import short_names
from holdfast.report.tables import Table, TableCell


def cell(table: Table, row: int, key: str) -> TableCell:
    return table.column(key).cells[row]


def best(comparison: ModelComparison, key: str) -> list[str]:
    table = comparison.table
    return [name for name, cell in zip(table.names, table.column(key).cells, strict=True) if cell.best]


def test_figures_come_from_the_files(tmp_path: Path) -> None:
    made = read_comparison([make_run(tmp_path / "a", recall=79.0, ers=20.0, speed=500.0, passes=3.0)])
    found = {
        key: cell(made.table, 0, key) for key in ("R@1", "ERS", "CA-", "seconds", "passes", "images", "parameters")
    }
    assert found["R@1"].value == 79.0
    assert found["ERS"].value == 20.0
    assert found["ERS"].interval == (18.5, 21.5)
    assert found["CA-"].value == 78.0
    assert found["seconds"].value == pytest.approx(600 * 112 / 500)
    assert found["passes"].value == 3.0
    assert found["images"].value == 600 * 112
    assert found["parameters"].value == 64 * 512 + 64
    assert not made.missing


def test_best_flips_with_the_value(tmp_path: Path) -> None:
    folders = [make_run(tmp_path / "a", 79.0, 20.0), make_run(tmp_path / "b", 66.0, 30.0)]
    before = read_comparison(folders)
    assert (best(before, "R@1"), best(before, "ERS"), best(before, "CA-")) == (["a"], ["b"], ["b"])
    (tmp_path / "a" / "audit.json").write_text(json.dumps(ers_audit(40.0, {}, [])))
    after = read_comparison(folders)
    assert (best(after, "R@1"), best(after, "ERS"), best(after, "CA-")) == (["a"], ["a"], ["a"])


def test_seconds_rank_nobody_because_machines_are_not_recorded(tmp_path: Path) -> None:
    made = read_comparison([make_run(tmp_path / "a", speed=500.0), make_run(tmp_path / "b", speed=100.0, passes=2.0)])
    assert best(made, "seconds") == []
    assert best(made, "passes") == ["a"]


@pytest.mark.parametrize(
    ("changes", "word"),
    [
        ({"data": {"name": "digits"}}, "data"),
        ({"data": {"name": "glyphs", "seed": 1}}, "data.seed"),
        ({"split": "val"}, "split"),
        ({"mode": "published"}, "mode"),
        ({"limit": 200, "images": 200}, "limit"),
        ({"budget": {"eps_pixel": 4 / 255}}, "eps 8/255"),
        ({"budget": {"steps": 8}}, "steps"),
        ({"budget": {"method": "square"}}, "method"),
        ({"seed": 3}, "seed"),
    ],
)
def test_audits_made_differently_are_not_ranked(tmp_path: Path, changes: dict[str, Any], word: str) -> None:
    made = read_comparison([make_run(tmp_path / "a"), make_run(tmp_path / "b", 66.0, 30.0, audit=changes)])
    assert list(made.unfair) == ["ers"]
    assert word in made.unfair["ers"]
    assert best(made, "ERS") == best(made, "CA-") == []
    assert best(made, "R@1") == ["a"]


def test_conditions_that_follow_from_others_are_not_told(tmp_path: Path) -> None:
    changes = {"limit": 200, "images": 200}
    made = read_comparison([make_run(tmp_path / "a"), make_run(tmp_path / "b", audit=changes)])
    assert made.unfair["ers"] == "ERS: limit 500 (a) and 200 (b)"


def test_an_eps_is_compared_as_it_is_written(tmp_path: Path) -> None:
    changes = {"budget": {"eps_pixel": 8 / 255 + 1e-9}}
    assert not read_comparison([make_run(tmp_path / "a"), make_run(tmp_path / "b", audit=changes)]).unfair


def test_validation_settings_leave_the_test_images_alone(tmp_path: Path) -> None:
    folders = [make_run(tmp_path / "a"), make_run(tmp_path / "b")]
    file = folders[1] / "evaluation.json"
    document = json.loads(file.read_text())
    document["data"]["validation"] = 0.3
    file.write_text(json.dumps(document))
    assert not read_comparison(folders).unfair
    document["data"]["per_class"] = 20
    file.write_text(json.dumps(document))
    assert set(read_comparison(folders).unfair) == {"clean", "ers"}


def on_photos(folder: Path, root: str, content: str) -> Path:
    """A run on a folder of photographs, measured by one that keeps a digest of them."""
    make_run(folder, audit={"data": {"name": "folder", "root": root}, "content": content})
    document = json.loads((folder / "evaluation.json").read_text())
    document |= {"data": {"name": "folder", "root": root}, "content": content}
    (folder / "evaluation.json").write_text(json.dumps(document))
    return folder


def test_data_are_compared_by_content_not_by_path(tmp_path: Path) -> None:
    one = on_photos(tmp_path / "a", "photos", "1f" * 16)
    assert not read_comparison([one, on_photos(tmp_path / "b", "/mnt/copy", "1f" * 16)]).unfair
    other = read_comparison([one, on_photos(tmp_path / "c", "elsewhere/birds", "2e" * 16)])
    assert other.unfair["clean"] == "Clean metrics: data folder:photos (a) and folder:elsewhere/birds (c)"
    changed = read_comparison([one, on_photos(tmp_path / "d", "photos", "3d" * 16)])
    assert changed.unfair["clean"] == (
        "Clean metrics: data folder:photos [1f1f1f1f] (a) and folder:photos [3d3d3d3d] (d)"
    )


def test_runs_of_before_are_compared_by_place(tmp_path: Path) -> None:
    one, old = on_photos(tmp_path / "a", "photos", "1f" * 16), on_photos(tmp_path / "b", "copy", "")
    assert read_comparison([one, old]).unfair["clean"] == "Clean metrics: data.root photos (a) and copy (b)"


def test_a_model_that_was_only_audited_takes_part(tmp_path: Path) -> None:
    other = tmp_path / "stranger"
    other.mkdir()
    (other / "audit.json").write_text(json.dumps(ers_audit(40.0, {}, [])))
    made = read_comparison([make_run(tmp_path / "a"), other])
    assert best(made, "ERS") == ["stranger"]
    assert cell(made.table, 1, "R@1").value == 78.0
    assert made.unfair == {"clean": "Clean metrics: images 3150 (a) and 500 (stranger)"}
    assert best(made, "R@1") == []


def test_what_is_missing_is_said_with_its_command(tmp_path: Path) -> None:
    folder = make_run(tmp_path / "a b", ers=None)
    made = read_comparison([folder, make_run(tmp_path / "c")])
    assert cell(made.table, 0, "ERS").value is None
    assert [entry.shown_command for entry in made.missing] == ["holdfast audit 'a b' --data glyphs"]
    assert [str(entry) for entry in made.missing] == [f"a b has no ERS yet: holdfast audit '{folder}' --data glyphs"]
    (folder / "evaluation.json").unlink()
    (folder / "metrics.jsonl").write_text('{"step": 1}\nnot json\n[1]\n{"step": "x"}\n')
    lines = [str(entry) for entry in read_comparison([folder]).missing]
    assert any("not finished" in line for line in lines)
    assert not any("holdfast audit" in line for line in lines), "there may be no model yet"


def test_damaged_files_are_named_and_left_out(tmp_path: Path) -> None:
    folder = make_run(tmp_path / "a")
    (folder / "audit.json").write_text('{"metrics": ')
    (folder / "model" / "model.safetensors").write_bytes(b"\xff" * 8)
    made = read_comparison([folder])
    assert any("audit.json is damaged" in entry.why for entry in made.missing)
    assert cell(made.table, 0, "parameters").value is None


def test_values_that_are_no_numbers_are_dashes(tmp_path: Path) -> None:
    folder = make_run(tmp_path / "a")
    document = json.loads((folder / "audit.json").read_text())
    document["metrics"] |= {"ERS": "<b>", "CA+": float("nan"), "QA+": [1], "TMA": True}
    document["intervals"] = [1, 2]
    (folder / "audit.json").write_text(json.dumps(document))
    made = read_comparison([folder])
    assert all(cell(made.table, 0, key).value is None for key in ("ERS", "CA+", "QA+", "TMA"))


def test_what_is_no_run_is_refused_in_one_line(tmp_path: Path) -> None:
    for folders in ([tmp_path], [tmp_path / "nowhere"], []):
        with pytest.raises(HoldfastError, match=r"holdfast|give") as caught:
            read_comparison(folders)
        assert "\n" not in str(caught.value)


def test_names_are_short_and_different(tmp_path: Path) -> None:
    paths = [tmp_path / "x" / "run", tmp_path / "y" / "run", tmp_path / "y" / "other", tmp_path / "x" / "run"]
    assert short_names(paths) == ["x/run (1)", "y/run", "other", "x/run (2)"]


def test_seeds_of_one_recipe_are_summed_up(tmp_path: Path) -> None:
    recalls, scores = [70.0, 74.0, 81.0], [20.0, 21.0, 25.0]
    folders = [
        make_run(tmp_path / f"hm-s{i}", recall, score, "hm", seed=i)
        for i, (recall, score) in enumerate(zip(recalls, scores, strict=True))
    ]
    assert read_comparison(folders[:1]).seeds is None
    made = read_comparison([*folders, make_run(tmp_path / "other")])
    assert made.seeds is not None
    assert made.seeds.names == ("hm (3 seeds)",)
    for key, values in (("R@1", recalls), ("ERS", scores)):
        found = cell(made.seeds, 0, key)
        assert found.value == pytest.approx(sum(values) / 3)
        assert found.spread == pytest.approx(statistics.stdev(values))


def test_seeds_measured_differently_are_not_averaged(tmp_path: Path) -> None:
    folders = [make_run(tmp_path / "a0", seed=0), make_run(tmp_path / "a1", seed=1, audit={"mode": "published"})]
    made = read_comparison(folders)
    assert made.seeds is not None
    assert cell(made.seeds, 0, "ERS").value is None
    assert cell(made.seeds, 0, "R@1").value == 79.0


def test_other_audits_have_their_headlines(tmp_path: Path) -> None:
    folder = make_run(tmp_path / "a")
    worst = {"protocol": "thorough", "mode": "fixed", "images": 64, "budget": {"eps_pixel": 8 / 255}}
    worst |= {"metrics": {"eps=8/255 R@1": 12.5, "breaking_eps": 2 / 255}, "intervals": {}, "flags": []}
    (folder / "audit-thorough-fixed.json").write_text(json.dumps(worst))
    stax = {"protocol": "stax", "metrics": {"stax/R@1": 44.0}, "intervals": {"stax/R@1": [40.0, 48.0]}}
    (folder / "audit-stax-replaced.json").write_text(json.dumps(stax))
    table = read_comparison([folder]).table
    assert cell(table, 0, "thorough R@1").value == 12.5
    assert cell(table, 0, "thorough breaking_eps").value == pytest.approx(2.0)
    assert cell(table, 0, "stax stax/R@1").interval == (40.0, 48.0)


def test_terms_average_to_the_score() -> None:
    scores = {key: 3.0 + place for place, key in enumerate(TERMS)}
    assert sum(TERMS[key](value) for key, value in scores.items()) / 10 == pytest.approx(ers_score(scores))
    assert TERMS["CA+"](60.0) == 120.0


def test_only_keys_that_differ_are_told(tmp_path: Path) -> None:
    made = read_comparison([make_run(tmp_path / "a"), make_run(tmp_path / "b", regime="hm", seed=1)])
    assert recipe_differences(made.runs) == [("regime.name", ["standard", "hm"]), ("seed", ["0", "1"])]


def test_models_that_see_images_otherwise_are_told(tmp_path: Path) -> None:
    """A recipe may leave the view to its backbone, and a model that was only audited has no recipe."""
    folders = [make_run(tmp_path / name) for name in "abc"]

    def seen(*views: str | None) -> list[str] | None:
        for folder, view in zip(folders, views, strict=True):
            document = json.loads((folder / "evaluation.json").read_text())
            (folder / "evaluation.json").write_text(json.dumps({**document, "view": view}))
        return dict(recipe_differences(read_comparison(folders).runs)).get("images seen as")

    assert seen("squashed", "squashed", "squashed") is None
    assert seen("squashed", None, "squashed") is None
    assert seen("squashed", None, "shape kept") == ["squashed", "–", "shape kept"]
    assert not read_comparison(folders).unfair, "the view is the model's own, so figures can be compared"


def test_differences_are_written_as_people_do(tmp_path: Path) -> None:
    folders = [make_run(tmp_path / name) for name in "ab"]
    first = {"name": "mdprop", "distributions": [{"name": "stax", "budget": {"eps": 8 / 255}}, {"name": "mtax"}]}
    second = {"name": "mdprop", "distributions": [{"name": "stax", "budget": {"eps": 1 / 30}}, {"name": "mtax"}]}
    other = {"name": "mdprop", "distributions": [{"name": "stax", "budget": {"eps": 4 / 255}}]}
    rest = (
        {"alpha": 2.0, "init": "/home/me/runs/x/last", "steps": []},
        {"alpha": 1.0, "init": "runs/y", "steps": [1, 2]},
    )

    def differences(*regimes: dict[str, Any]) -> dict[str, list[str]]:
        for folder, regime, more in zip(folders, regimes, rest, strict=True):
            (folder / "recipe.yaml").write_text(json.dumps({"regime": regime, **more}))
        return dict(recipe_differences(read_comparison(folders).runs))

    told = {"alpha": ["2", "1"], "init": ["…/last", "runs/y"], "steps": ["[]", "1, 2"]}
    assert differences(first, second) == {"regime.distributions.0.budget.eps": ["8/255", "0.03333"], **told}
    assert differences(first, other) == {"regime.distributions": ["stax, mtax", "stax"], **told}


def test_queries_are_shared_when_their_pictures_are(tmp_path: Path) -> None:
    folders = [make_run(tmp_path / name) for name in "ab"]
    for folder, right in zip(folders, (5, 2), strict=True):
        add_exhibits(folder, right, 1, [79, 60, 31, 9, 1, 0])
    runs = read_comparison(folders).runs
    shared = shared_queries(runs)
    assert [query["label"] for query in shared] == ["class 0", "class 1"]
    assert [sum(m["right"] for m in answer["matches"]) for answer in shared[0]["answers"]] == [5, 2]
    for picture in (folders[1] / "artifacts" / "pictures").iterdir():
        picture.write_bytes(picture.read_bytes() + b"\0")
    assert shared_queries(read_comparison(folders).runs) == []


def test_curves_of_different_attacks_are_not_drawn_together(tmp_path: Path) -> None:
    folders = [make_run(tmp_path / name) for name in "ab"]
    add_exhibits(folders[0], 5, 1, [79, 60, 31, 9, 1, 0])
    add_exhibits(folders[1], 5, 1, [66, 64, 61, 52, 37, 12])
    curves = eps_curves(read_comparison(folders).runs)
    assert curves is not None
    assert curves[0].title == "They differ most at 4/255 per pixel: b keeps an R@1 of 52.0, a 9.0"
    file = folders[1] / "artifacts" / "exhibits.json"
    document = json.loads(file.read_text())
    document["radius"]["steps"] = 3
    file.write_text(json.dumps(document))
    assert eps_curves(read_comparison(folders).runs) is None


def test_curves_that_are_alike_differ_nowhere(tmp_path: Path) -> None:
    folders = [make_run(tmp_path / name) for name in "ab"]
    for folder, last in zip(folders, (10.01, 10.02), strict=True):
        add_exhibits(folder, 5, 1, [79, 60, 31, 12, 11, last])
    curves = eps_curves(read_comparison(folders).runs)
    assert curves is not None
    assert curves[0].title == "From 1/255 per pixel on, attacks leave all runs the same R@1"


def test_the_dashed_line_goes_through_the_unbeaten() -> None:
    places = {"a": (10, 80), "b": (30, 70), "c": (5, 79), "d": (30, 60), "e": (10, 80)}
    discs = [Disc(name, name, "s1", x, y) for name, (x, y) in places.items()]
    assert [disc.name for disc in unbeaten(discs)] == ["a", "e", "b"]


def test_areas_follow_cost_and_need_all_of_them() -> None:
    assert diameters([1.0, 4.0]) == [LARGEST / 2, LARGEST]
    assert diameters([1e-6, 4.0]) == [SMALLEST, LARGEST]
    assert diameters([None, 4.0]) == [SMALLEST, SMALLEST]


def test_a_model_audited_with_another_protocol_has_its_clean_figures_and_a_command(tmp_path: Path) -> None:
    other = tmp_path / "stranger"
    other.mkdir()
    document = {**ers_audit(40.0, {}, []), "protocol": "stax", "model": "onnx:/mnt/them.onnx"}
    (other / "audit-stax-fixed.json").write_text(json.dumps(document))
    made = read_comparison([other])
    assert cell(made.table, 0, "R@1").value == 78.0
    command = "holdfast audit onnx:{} --data glyphs --out {}"
    assert [entry.command for entry in made.missing] == [command.format("/mnt/them.onnx", other)]
    assert [entry.shown_command for entry in made.missing] == [command.format("them.onnx", "stranger")]
