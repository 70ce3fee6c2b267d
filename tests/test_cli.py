from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from PIL import Image

from holdfast.cli import main
from holdfast.cli.list import FAMILIES
from holdfast.models import Embedder


def run(*words: str) -> int:
    try:
        return main(list(words))
    except SystemExit as stop:
        return int(stop.code or 0)


@pytest.fixture
def recipe(tiny: dict[str, Any], tmp_path: Path) -> str:
    tiny |= {"epochs": 1, "batch": {"classes": 3, "per_class": 3}}
    file = tmp_path / "tiny.yaml"
    file.write_text(yaml.safe_dump(tiny))
    return str(file)


def test_from_a_folder_of_photos_to_vectors(
    photos: Path, recipe: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = str(tmp_path / "run")
    assert run("train", recipe, "--data", f"folder:{photos}", "--out", out) == 0
    assert "R@1" in capsys.readouterr().out
    assert run("evaluate", out, "--data", f"folder:{photos}", "--json", "--out", str(tmp_path / "e.json")) == 0
    printed = json.loads(capsys.readouterr().out)
    assert printed == json.loads((tmp_path / "e.json").read_text())
    stored = json.loads((tmp_path / "run" / "evaluation.json").read_text())
    assert printed["metrics"] == stored["metrics"], "evaluating the run again gives what training wrote"
    assert run("embed", out, "--data", f"folder:{photos}", "--out", str(tmp_path / "v.npz"), "--json") == 0
    assert json.loads(capsys.readouterr().out)["images"] == 60
    vectors = np.load(tmp_path / "v.npz", allow_pickle=False)
    assert vectors["vectors"].shape == (60, 16)
    np.testing.assert_allclose(np.linalg.norm(vectors["vectors"], axis=1), 1, rtol=1e-5)
    assert len(set(vectors["ids"].tolist())) == 60
    assert set(vectors["splits"].tolist()) == {"train", "val", "test"}


def test_the_same_command_resumes_or_shows_the_result(recipe: str, tmp_path: Path) -> None:
    words = ("train", recipe, "--out", str(tmp_path / "run"), "--json")
    assert run(*words) == 0
    before = (tmp_path / "run" / "evaluation.json").read_text()
    assert run(*words) == 0
    assert (tmp_path / "run" / "evaluation.json").read_text() == before


def test_quiet_leaves_results_and_errors(recipe: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ("train", recipe, "--out", str(tmp_path / "run"))
    assert run(*words, "--quiet") == 0
    quiet = capsys.readouterr()
    assert quiet.err == ""
    assert run(*words) == 0
    loud = capsys.readouterr()
    assert quiet.out == loud.out
    assert loud.err
    assert run("evaluate", "nothing", "--data", "glyphs", "-q") == 2
    assert "nothing" in capsys.readouterr().err


def test_a_corrupt_image_is_named_and_can_be_skipped(
    photos: Path, recipe: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in range(12):
        (photos / f"class-{name}" / "0.png").write_bytes(b"junk")
    words = ["train", recipe, "--data", f"folder:{photos}", "--out", str(tmp_path / "run")]
    assert run(*words) == 2
    error = capsys.readouterr().err.strip().splitlines()[-1]
    assert "0.png" in error
    assert "--skip-bad" in error
    assert run(*words, "--skip-bad") == 0
    printed = capsys.readouterr()
    assert "unreadable" in printed.err
    assert "unreadable images left out" in printed.out


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["train", "pockett"], "did you mean 'pocket'"),
        (["train", "pocket", "--data", "folder:nothing-here"], "does not exist"),
        (["train", "pocket", "--data", "foldr:x"], "did you mean 'folder'"),
        (["train", "pocket", "--set", "epocs=1"], "did you mean 'epochs'"),
        (["train", "pocket", "--set", "optimizer.lr=fast"], "optimizer.lr: expected a number"),
        (["train", "pocket", "--device", "gpu"], "unknown device 'gpu'"),
        (["audit", "nothing", "--data", "glyphs", "--robust-norm", "l1"], "unknown robust-norm 'l1'"),
        (["train", "pocket", "--device", "cuda:zz"], "unknown device 'cuda:zz'"),
        (["train", "pocket", "--set", "epochs=0"], "holdfast: recipe: epochs must be 1 or more"),
        (["evaluate", "nothing", "--data", "glyphs"], "no model at 'nothing'"),
        (["list", "losess"], "did you mean 'losses'"),
        (["evalute"], "did you mean 'evaluate'"),
        (["train"], "--data"),
    ],
)
def test_mistakes_end_with_one_line_and_code_2(
    words: list[str], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run(*words) == 2
    error = capsys.readouterr().err.strip()
    assert message in error
    assert "Traceback" not in error
    assert error.count("\n") == 0


def test_one_class_and_no_images(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "one" / "cats").mkdir(parents=True)
    Image.new("RGB", (32, 32)).save(tmp_path / "one" / "cats" / "a.png")
    for name, message in (("empty", "no images"), ("one", "only one class")):
        assert run("train", "pocket", "--data", f"folder:{tmp_path / name}", "--out", str(tmp_path / "run")) == 2
        assert message in capsys.readouterr().err


def test_debug_shows_the_traceback(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("evaluate", "nothing", "--data", "glyphs", "--debug") == 2
    assert "Traceback" in capsys.readouterr().err


@pytest.mark.parametrize("command", ["train", "evaluate", "embed", "check", "explain", "list", "demo"])
def test_every_help_has_an_example_that_parses(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    from holdfast.cli.entry import parser

    assert run(command, "--help") == 0
    text = capsys.readouterr().out
    examples = [line.split() for line in text.partition("example:")[2].splitlines() if line.strip()]
    assert examples
    for example in examples:
        assert example[:2] == ["holdfast", command]
        assert parser().parse_args(example[1:]).run is not None


@pytest.mark.parametrize("family", sorted(FAMILIES))
def test_lists_have_a_line_on_each(family: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("list", family, "--json") == 0
    entries = json.loads(capsys.readouterr().out)
    assert entries
    assert all(len(text) > 3 for text in entries.values()), [name for name, text in entries.items() if len(text) <= 3]


def test_check_finds_the_broken_picture(photos: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("check", "--data", f"folder:{photos}", "--json") == 0
    assert [found["kind"] for found in json.loads(capsys.readouterr().out)["problems"]] == ["small-validation"]
    (photos / "class-1" / "2.png").write_bytes(b"")
    assert run("check", "--data", f"folder:{photos}") == 1, "an image that cannot be read fails a script"
    assert "unreadable-image: 1 image is unreadable (class-1/2.png)" in capsys.readouterr().out


def test_check_says_what_was_skipped(photos: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("class-0/IMG_1.HEIC", "class-0/IMG_2.heic", "notes.txt", ".DS_Store", "class-1/Thumbs.db"):
        (photos / name).write_bytes(b"x")
    Image.new("RGB", (32, 32)).save(photos / "loose.png")
    assert run("check", "--data", f"folder:{photos}") == 0
    out = capsys.readouterr().out
    assert "3 files are no image by extension (.heic 2, .txt 1: class-0/IMG_1.HEIC, class-0/IMG_2." in out
    assert "1 image is in no class folder or list (loose.png)" in out
    assert "2 files are hidden or of the system (.DS_Store, class-1/Thumbs.db)" in out
    assert run("check", "--data", f"folder:{photos}", "--json") == 0
    assert json.loads(capsys.readouterr().out)["skipped_files"] == {
        "no_images": 3,
        "unplaced": 1,
        "hidden": 2,
        "links": 0,
        "unnamed": 0,
    }


def test_check_lists_missing_files_among_the_problems(photos: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = [f"class-{c}/{i}.png,{c}" for c in range(2) for i in range(1, 3)]
    (photos / "list.csv").write_text("\n".join(["path,label", *rows, "gone.png,1"]))
    assert run("check", "--data", f"csv:{photos / 'list.csv'}") == 1
    assert "missing-file: 1 file is missing (gone.png)" in capsys.readouterr().out


def test_import_is_light() -> None:
    heavy = [
        "timm",
        "torchvision",
        "pytorch_metric_learning",
        "sklearn",
        "faiss",
        "matplotlib",
        "accelerate",
        "scipy",
        "huggingface_hub",
    ]
    code = f"import sys, holdfast; print([m for m in {heavy!r} if m in sys.modules])"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"


@pytest.fixture
def package(tmp_path: Path) -> str:
    Embedder("conv-tiny", dim=8).save_pretrained(tmp_path / "package")
    return str(tmp_path / "package")


@pytest.fixture
def listed(photos: Path) -> str:
    """A CSV file of the photos, with one that is not there."""
    rows = [f"class-{c}/{p}.png,{c}" for c in range(12) for p in range(5)]
    (photos / "list.csv").write_text("\n".join(["path,label", *rows]))
    (photos / "class-3" / "1.png").unlink()
    return f"csv:{photos / 'list.csv'}"


def test_skip_bad_also_skips_listed_images_that_are_missing(
    package: str, listed: str, recipe: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["evaluate", package, "--data", listed, "--split", "all", "--json"]
    assert run(*words) == 2
    assert "class-3/1.png" in capsys.readouterr().err
    assert run(*words, "--skip-bad") == 0
    assert [s["image"] for s in json.loads(capsys.readouterr().out)["skipped"]] == ["class-3/1.png"]
    assert run("embed", package, "--data", listed, "--skip-bad", "--json", "--out", str(tmp_path / "v.npz")) == 0
    assert json.loads(capsys.readouterr().out)["skipped"] == 1
    assert run("train", recipe, "--data", listed, "--skip-bad", "--out", str(tmp_path / "run")) == 0
    stored = yaml.safe_load((tmp_path / "run" / "recipe.yaml").read_text())
    assert stored["data"]["skip_bad"] is False, "the flag is no part of the recipe"


def test_clusters_of_an_evaluation_and_of_a_run_can_be_asked_for(
    package: str, photos: Path, recipe: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["evaluate", package, "--data", f"folder:{photos}", "--split", "all", "--json"]
    assert run(*words) == 0
    plain = json.loads(capsys.readouterr().out)
    assert plain["metrics"]["NMI+"] is None, "ten clusters per class are more than there are images"
    assert run(*words, "--factor", "3", "--clusters", "20") == 0
    asked = json.loads(capsys.readouterr().out)
    assert asked["metrics"]["NMI+"] is not None
    assert asked["clustering"] == {"factor": 3, "clusters": 20}
    assert asked["metrics"]["NMI"] != plain["metrics"]["NMI"]
    settings = ["--set", "clustering={factor: 2}", "--set", "data.validation=0"]
    assert run("train", recipe, "--data", f"folder:{photos}", "--out", str(tmp_path / "run"), *settings) == 0
    stored = json.loads((tmp_path / "run" / "evaluation.json").read_text())
    assert stored["clustering"] == {"factor": 2, "clusters": None}
    capsys.readouterr()
    assert run("train", recipe, "--set", "clustering.factor=0", "--out", str(tmp_path / "none")) == 2
    assert "clustering.factor" in capsys.readouterr().err


def test_a_place_that_cannot_be_written_ends_with_one_line(
    package: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for out in (tmp_path, Path("/proc/x.json")):
        assert run("evaluate", package, "--data", "digits", "--out", str(out), "--json") == 2
        error = capsys.readouterr().err.strip()
        assert error.startswith(f"holdfast: {out}: ")
        assert error.endswith("; give another --out")
        assert error.count("\n") == 0


def test_a_file_that_cannot_be_read_is_not_about_out(
    package: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refuse(*_: Any) -> None:
        raise PermissionError(13, "Permission denied", "photos/list.csv")

    monkeypatch.setattr("holdfast.evaluation.read_table", refuse)
    words = ("evaluate", package, "--data", "digits")
    for more in ((), ("--out", str(tmp_path / "e.json"))):
        assert run(*words, *more) == 2
        assert capsys.readouterr().err.strip() == "holdfast: photos/list.csv: Permission denied"


def test_vectors_are_reported_where_they_are(package: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("embed", package, "--data", "digits", "--out", str(tmp_path / "vecs"), "--json") == 0
    file = Path(json.loads(capsys.readouterr().out)["file"])
    assert file == tmp_path / "vecs.npz"
    assert np.load(file)["vectors"].shape[1] == 8


@pytest.mark.parametrize(
    "words", [["--batch", "0"], ["--batch", "-1"], ["--size", "x"], ["--limit", "0"], ["--save-examples", "-1"]]
)
def test_counts_are_checked(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert run("audit", "nothing", "--data", "glyphs", *words) == 2
    error = capsys.readouterr().err.strip()
    assert f"argument {words[0]}: expected a whole number of" in error
    assert error.count("\n") == 0


def test_an_option_of_several_values_that_is_given_again_adds_to_them() -> None:
    from holdfast.cli.entry import parser

    line = ["study", "A1", "--place", "cub=a", "cars=b", "--place", "omniglot=c", "--seeds", "0", "--seeds", "1"]
    read = parser().parse_args(line)
    assert read.place == ["cub=a", "cars=b", "omniglot=c"]
    assert read.seeds == [0, 1]
    asked = parser().parse_args(
        ["search", "index", "--query", "a.png", "b.png", "--query", "c.png", "-k", "2", "-k", "3"]
    )
    assert asked.query == ["a.png", "b.png", "c.png"], "in a group, too"
    assert asked.k == 3, "of one value the last counts"
