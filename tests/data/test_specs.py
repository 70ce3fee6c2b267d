from __future__ import annotations

import dataclasses
import subprocess
import sys
from pathlib import Path

import pytest
from pictures import Paint

from holdfast import config, data
from holdfast.cli import main
from holdfast.errors import DataError, HoldfastError, RecipeError

BENCHMARKS = {"cars", "cub", "inshop", "mnist", "omniglot", "sop"}


def test_every_dataset_is_listed_with_a_summary() -> None:
    assert set(data.names()) == BENCHMARKS | {"csv", "digits", "folder", "glyphs", "images"}
    for name in data.names():
        assert data.registry.summary(name)


def test_a_registered_reader_spells_itself(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    @dataclasses.dataclass(frozen=True, kw_only=True)
    class Ponds(data.Reader):
        file: str

        def read(self) -> data.ImageTable:
            raise NotImplementedError

    monkeypatch.setitem(data.registry._members, "ponds", Ponds)
    assert {"ponds:FILE", "cub:DIR", "glyphs"} <= set(data.spellings())
    assert data.parse("ponds:x.csv") == {"name": "ponds", "file": "x.csv"}
    with pytest.raises(SystemExit):
        main(["check", "--help"])
    assert "ponds:FILE" in capsys.readouterr().out


def test_parse_fills_the_first_field() -> None:
    assert data.parse("glyphs") == {"name": "glyphs"}
    assert data.parse("folder:some/dir") == {"name": "folder", "root": "some/dir"}
    assert data.parse("csv:C:/list.csv") == {"name": "csv", "file": "C:/list.csv"}
    assert data.parse({"name": "cub", "root": "x"}) == {"name": "cub", "root": "x"}
    for name in BENCHMARKS:
        assert data.parse(f"{name}:x") == {"name": name, "root": "x"}


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("glyfs", "did you mean 'glyphs'"),
        ("glyphs:foo", "takes no path"),
        ("digits:", "takes no path"),
        ("folder", "folder:PATH"),
        ("folder:", "folder:PATH"),
        ("folder:no/such/place", "does not exist"),
        ({"name": "glyphs", "sizes": 3}, "did you mean 'size'"),
        ({"name": "glyphs", "size": "big"}, "whole number"),
        ({"name": "glyphs", "per_class": 1}, "at least 2"),
        ({"name": "digits", "validation": 1.0}, "0 to under 1"),
        ({"name": "digits", "validation": -0.1}, "0 to under 1"),
        ({"name": "folder", "root": "x", "test": 2}, "0 to 1"),
        ({"root": "x"}, "expected a dataset name"),
    ],
)
def test_mistakes_get_one_clear_line(spec: str | dict[str, object], message: str) -> None:
    with pytest.raises(HoldfastError, match=message) as caught:
        data.load(spec)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(("place", "spec"), [("photos", "folder:photos"), ("list.csv", "csv:list.csv")])
def test_a_bare_place_is_answered_with_its_spelling(
    place: str, spec: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / place).mkdir()
    with pytest.raises(DataError, match=f"write {spec}$"):
        data.parse(place)
    with pytest.raises(HoldfastError, match="unknown dataset"):
        data.parse("x" * 5000)


@pytest.mark.parametrize("name", sorted(BENCHMARKS))
def test_a_benchmark_that_is_not_there_says_what_is_expected(name: str, tmp_path: Path) -> None:
    with pytest.raises(DataError, match="expected"):
        data.load(f"{name}:{tmp_path / 'nowhere'}")
    with pytest.raises(DataError, match="expected"):
        data.load(f"{name}:{tmp_path}")


def test_blocks_resolve_to_plain_data_that_builds_the_same_reader() -> None:
    plain = config.resolve(data.Reader, {"name": "cub", "root": "x", "validation": "1/5"})
    assert plain["validation"] == 0.2
    reader = config.instantiate(data.Reader, plain)
    assert {"name": "cub", **dataclasses.asdict(reader)} == plain


def test_overrides_and_coarse_labels(paint: Paint, tmp_path: Path) -> None:
    for name in "abcdefgh":
        paint(f"{name}/1.png")
    assert data.load(f"folder:{tmp_path}", test=0.0, validation=0.25).has("val")
    assert not data.from_folder(tmp_path, test=0.0, validation=0).has("val")
    with pytest.raises(DataError, match="no coarse labels"):
        data.from_folder(tmp_path, labels="coarse")
    with pytest.raises(RecipeError, match="unknown value"):
        data.from_folder(tmp_path, labels="corse")


def test_importing_the_package_stays_light() -> None:
    heavy = ["sklearn", "scipy", "matplotlib", "faiss", "timm", "torchvision", "pytorch_metric_learning", "fontTools"]
    code = f"import sys, holdfast.data; holdfast.data.names(); print([m for m in {heavy} if m in sys.modules])"
    assert subprocess.check_output([sys.executable, "-c", code], text=True).strip() == "[]"
