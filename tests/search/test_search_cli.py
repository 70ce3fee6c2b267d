from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from holdfast.cli import main
from index_cases import small_model


def run(*words: object) -> int:
    try:
        return main([str(word) for word in words])
    except SystemExit as stop:
        return int(stop.code or 0)


@pytest.fixture
def model(tmp_path: Path) -> Path:
    small_model().save_pretrained(tmp_path / "net")
    return tmp_path / "net"


@pytest.fixture
def index(model: Path, photos: Path, tmp_path: Path) -> Path:
    assert run("index", model, "--data", f"folder:{photos}", "--out", tmp_path / "photos.index", "--json") == 0
    return tmp_path / "photos.index"


def test_from_photos_to_matches(model: Path, photos: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    index = tmp_path / "photos.index"
    assert run("index", model, "--data", f"folder:{photos}", "--out", index, "--json") == 0
    built = json.loads(capsys.readouterr().out)
    assert (built["images"], built["added"], built["kind"], built["calibrated_on"]) == (60, 60, "flat", 60)
    query = photos / "class-3" / "2.png"
    assert run("search", index, "--query", query, "-k", 3, "--json", "--false-alarms", 0.02) == 0
    (answer,) = json.loads(capsys.readouterr().out)["answers"]
    first = {"id": "class-3/2.png", "label": "class-3", "distance": pytest.approx(0, abs=1e-5), "same": None}
    assert answer["matches"][0] == first
    assert len(answer["matches"]) == 3
    assert answer["tampered"] is False
    assert run("search", index, "--query", query, "-k", 3) == 0
    printed = capsys.readouterr().out
    assert "class-3/2.png" in printed
    assert "not checked for tampering: 60 clean images are too few" in printed


def test_an_index_of_an_audited_run_says_what_no_mark_means(
    model: Path, photos: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder, query = tmp_path / "run", photos / "class-1" / "1.png"
    folder.mkdir()
    model.rename(folder / "model")
    (folder / "recipe.yaml").write_text("epochs: 1\n")
    audit = {
        "metrics": {"R@1": 84.0, "robust R@1": 3.5},
        "intervals": {"robust R@1": [1.5, 6.5]},
        "robust": {"eps": 8 / 255, "norm": "linf", "queries": 200},
        "flags": [{"name": "masked-gradient", "level": "error", "why": "70 \x1b[2J 0.5"}],
    }
    (folder / "audit.json").write_text(json.dumps(audit))
    (folder / "audit-natural-fixed.json").write_text(json.dumps({"metrics": {"R@1": 84.0, "natural R@1": 61.2}}))
    assert run("index", folder, "--data", f"folder:{photos}", "--out", tmp_path / "i", "--calibrate", 0) == 0
    capsys.readouterr()
    assert run("search", tmp_path / "i", "--query", query, "-k", 1, "--html", tmp_path / "found.html") == 0
    printed = capsys.readouterr().out
    told = "of 100 searches 84 find their class; 3.5 (1.5 to 6.5) still do when every pixel may change by up to 8/255"
    assert f"a query may have been changed; by the model's audit, {told}" in printed, "too few images to mark any"
    page = (tmp_path / "found.html").read_text("utf-8")
    assert "A query may have been changed" in page
    assert "give --gallery DATA" in page
    assert "(not to be trusted: masked-gradient: 70 \\x1b[2J 0.5), and 61.2 after everyday damage" in printed
    assert "3.5 (1.5 to 6.5) still do" in page
    assert run("index", tmp_path / "i", "--add", f"folder:{photos}", "--prefix", "more/") == 0
    assert run("search", tmp_path / "i", "--query", query, "-k", 1, "--json") == 0
    assert json.loads(capsys.readouterr().out.splitlines()[-1])["audit"]["metrics"]["robust R@1"] == 3.5


def test_thresholds_of_a_run_say_which_matches_are_the_same(
    model: Path, photos: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder, index, query = tmp_path / "run", tmp_path / "i", photos / "class-1" / "1.png"
    folder.mkdir()
    model.rename(folder / "model")
    (folder / "recipe.yaml").write_text("epochs: 1\n")
    data = ("--data", f"folder:{photos}")
    assert run("calibrate", folder, *data, "--far", 0.1, 0.04) == 0
    assert run("index", folder, *data, "--out", index, "--calibrate", 0) == 0
    stored = json.loads((folder / "artifacts" / "verification.json").read_text())["thresholds"]
    assert run("index", index, "--add", f"folder:{photos}", "--prefix", "more/") == 0, "an addition keeps them"
    for far, known in ((None, stored[0]), (0.04, stored[1])):
        capsys.readouterr()
        assert run("search", index, "--query", query, "-k", 60, "--json", *(("--far", far) if far else ())) == 0
        (answer,) = json.loads(capsys.readouterr().out)["answers"]
        assert [m["same"] for m in answer["matches"]] == [m["distance"] < known["threshold"] for m in answer["matches"]]
        assert {m["same"] for m in answer["matches"]} == {True, False}
    assert run("search", index, "--query", query, "-k", 2, "--html", tmp_path / "found.html") == 0
    assert " yes " in capsys.readouterr().out
    assert ", the same<" in (tmp_path / "found.html").read_text("utf-8")
    assert run("search", index, "--query", query, "--far", 0.5) == 2
    assert "FAR of 0.5" in capsys.readouterr().err
    (tmp_path / "none.json").write_text('{"thresholds": [{"far": 2, "threshold": "x"}]}')
    assert run("search", index, "--query", query, "--verification", tmp_path / "none.json") == 2
    assert "no thresholds" in capsys.readouterr().err


def test_what_a_search_leaves_out_is_said(
    index: Path, photos: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    queries = tmp_path / "queries"
    queries.mkdir()
    (queries / "fine.png").write_bytes((photos / "class-1" / "1.png").read_bytes())
    (queries / "cut.png").write_bytes((photos / "class-1" / "1.png").read_bytes()[:60])
    (queries / "list.txt").write_text("no image")
    capsys.readouterr()
    assert run("search", index, "--data", f"images:{queries}", "--skip-bad", "-k", 1) == 0
    printed = capsys.readouterr()
    assert "1 unreadable, left out" in printed.out
    assert "skipped: 1 file" in printed.err
    assert "class-1/1.png" in printed.out


def test_loose_images_are_added_and_found(
    index: Path, photos: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    capsys.readouterr()
    more = tmp_path / "more"
    more.mkdir()
    Image.fromarray(np.random.default_rng(7).integers(0, 255, (40, 40, 3), dtype=np.uint8)).save(more / "new.png")
    words = ("index", index, "--add", f"images:{more}", "--prefix", "more/", "--json")
    assert run(*words) == 0
    assert json.loads(capsys.readouterr().out)["added"] == 1
    assert run(*words) == 0
    assert json.loads(capsys.readouterr().out)["unchanged"] == 1
    assert run("search", index, "--data", f"images:{more}", "-k", 1, "--json") == 0
    (answer,) = json.loads(capsys.readouterr().out)["answers"]
    found = {"id": "more/new.png", "label": "", "distance": pytest.approx(0, abs=1e-5), "same": None}
    assert answer["matches"] == [found]


def test_a_page_with_pictures_needs_nothing_else(index: Path, photos: Path, tmp_path: Path) -> None:
    evil = photos / "class-0" / "<img src=x onerror=alert(1)>.png"
    (photos / "class-0" / "0.png").rename(evil)
    page = tmp_path / "found.html"
    words = ("search", index, "--query", evil, photos / "class-1" / "1.png", "--html", page, "--json")
    assert run(*words, "--gallery", f"folder:{photos}") == 0
    html = page.read_text()
    assert "<img src=x" not in html
    assert "&lt;img src=x" in html
    sources = re.findall(r'src="([^"]*)"', html)
    assert len(sources) > 15
    assert all(source.startswith("data:image/") for source in sources)
    assert not re.findall(r"https?://", html)
    assert run(*words) == 0
    assert len(re.findall("<img", page.read_text())) == 2, "only the queries, which the user named"
    assert run(*words, "--no-images") == 0
    assert "<img" not in page.read_text()


def test_a_hostile_id_is_never_a_path_nor_drives_the_terminal(
    model: Path, photos: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    import dataclasses

    from holdfast.search import create_index
    from index_cases import picture_table, pictures

    secret = photos / "class-0" / "0.png"
    table = dataclasses.replace(picture_table(pictures(3)), ids=[str(secret), "../class-0/0.png", "\x1b[2Jgone"])
    create_index(tmp_path / "evil.index", small_model(), table)
    page = tmp_path / "page.html"
    words = ("search", tmp_path / "evil.index", "--query", photos / "class-1" / "1.png")
    assert run(*words, "--html", page, "--gallery", f"folder:{photos}") == 0
    assert len(re.findall("<img", page.read_text())) == 1, "the query; ids are looked up, never opened"
    assert "\x1b" not in capsys.readouterr().out


def test_embed_takes_loose_images_and_refuses_a_format_first(
    model: Path, photos: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("embed", model, "--data", f"images:{photos}", "--out", tmp_path / "v.npz", "--json") == 0
    stored = np.load(tmp_path / "v.npz", allow_pickle=False)
    assert stored["vectors"].shape == (60, 8)
    assert set(stored["label_names"].tolist()) == {""}
    capsys.readouterr()
    assert run("embed", model, "--data", f"images:{photos}", "--out", tmp_path / "v.txt") == 2
    assert ".npz or .parquet" in capsys.readouterr().err


def test_calibrate_prints_and_writes_thresholds(
    model: Path, photos: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ("calibrate", model, "--data", f"folder:{photos}", "--split", "all")
    assert run(*words, "--far", 0.05, "--out", tmp_path / "t.json", "--json") == 0
    printed = json.loads(capsys.readouterr().out)
    assert printed == json.loads((tmp_path / "t.json").read_text())
    assert printed["pairs"] == {"positive": 120, "negative": 1650}
    assert len(printed["roc"]["TAR"]) == len(printed["roc"]["FAR"]) == 101
    assert run(*words, "--far", 0.05) == 0
    assert "TAR %" in capsys.readouterr().out
    assert run(*words, "--far", "1e-6") == 2
    assert "6.1e-03" in capsys.readouterr().err


def test_the_size_of_a_model_that_is_given_counts(index: Path, model: Path, photos: Path) -> None:
    added = ("--model", model, "--size", 32, "--json")
    assert run("index", index, "--add", f"folder:{photos}", *added) == 0
    assert run("search", index, "--query", photos / "class-0" / "0.png", *added) == 0


@pytest.mark.parametrize("place", ["artifacts", "artifacts/verification.json"])
def test_thresholds_are_not_written_through_a_link(
    place: str, photos: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder, outside = tmp_path / "run", tmp_path / "outside"
    small_model().save_pretrained(folder / "model")
    (folder / "recipe.yaml").write_text("data: {name: glyphs}")
    outside.mkdir()
    (outside / "verification.json").write_text("precious")
    (folder / place).parent.mkdir(exist_ok=True)
    (folder / place).symlink_to(outside / place.removeprefix("artifacts").strip("/"))
    words = ("calibrate", folder, "--data", f"folder:{photos}", "--split", "all", "--far", 0.05, "--json")
    assert run(*words) == 2
    assert "a link that leads out of" in capsys.readouterr().err
    assert {file.name: file.read_text() for file in outside.iterdir()} == {"verification.json": "precious"}
    (folder / place).unlink()
    assert run(*words) == 0
    assert (folder / "artifacts" / "verification.json").is_file()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["search", "{tmp}", "--query", "x.png"], "there is no index"),
        (["search", "{index}", "--query", "{tmp}/nothing.png"], "no such file"),
        (["search", "{index}", "--query", "{index}/manifest.json"], "cannot read image"),
        (["search", "{index}"], "--query --data is required"),
        (["search", "{index}", "--query", "x.png", "--no-images"], "add --html"),
        (["index", "{net}", "--data", "images:{photos}"], "--out FOLDER"),
        (["index", "{net}", "--data", "images:{photos}", "--out", "{index}"], "add to an index with --add"),
        (["index", "{index}", "--add", "images:{photos}", "--kind", "ivf"], "keeps its kind"),
        (["index", "{index}", "--add", "images:{photos}", "--calibrate", "0"], "--calibrate has no effect here"),
        (["index", "{index}", "--add", "images:{photos}", "--seed", "0"], "--seed has no effect here"),
        (["index", "{index}", "--add", "images:{photos}", "--size", "32"], "--size has no effect here"),
        (["search", "{index}", "--data", "images:{photos}", "--size", "32"], "--size has no effect here"),
        (["search", "{index}", "--query", "{photos}/class-0/0.png", "--split", "all"], "--split has no effect here"),
        (["search", "{index}", "--data", "images:{photos}", "--false-alarms", "5"], "between 0 and 1, such as 0.01"),
        (["search", "{index}", "--data", "images:{photos}", "--false-alarms", "nan"], "between 0 and 1, such as 0.01"),
        (["search", "{index}", "--query", "{photos}/class-0/0.png", "--html", "{tmp}"], "give another --html"),
        (["search", "{index}", "--query", "{photos}/class-0/0.png", "--html", "/proc/x/y"], "give another --html"),
        (["search", "{index}", "--query", "{photos}/class-0/0.png", "--html", "."], "give another --html"),
        (["index", "{net}", "--data", "images:{photos}", "--out", "."], "--out FOLDER"),
        (["embed", "{net}", "--data", "images:{photos}", "--out", "."], "give another --out"),
        (["calibrate", "{net}", "--data", "folder:{photos}", "--far", "0.5", "--out", "."], "give another --out"),
        (["calibrate", "{net}", "--data", "folder:{photos}", "--far", "0"], "between 0 and 1, such as 0.01"),
        (["index", "{net}", "--data", "images:{photos}", "--kind", "hnws"], "did you mean 'hnsw'"),
        (["calibrate", "{net}", "--data", "images:{photos}"], "no labels"),
    ],
)
def test_mistakes_are_one_line(
    words: list[str],
    message: str,
    index: Path,
    model: Path,
    photos: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    capsys.readouterr()
    filled = [word.format(index=index, net=model, photos=photos, tmp=tmp_path) for word in words]
    assert run(*filled) == 2
    lines = capsys.readouterr().err.strip().splitlines()
    assert message in lines[-1]
    assert not any("Traceback" in line for line in lines)
