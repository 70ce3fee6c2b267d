from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from holdfast.errors import HoldfastError, RecipeError
from holdfast.training.folder import RunFolder
from holdfast.training.recipe import load_recipe


@pytest.mark.parametrize("content", [b'{"schema": 1, "met', b"", b"\xff\xfe", b"[]"])
def test_a_damaged_evaluation_means_that_the_run_is_not_finished(tmp_path: Path, content: bytes) -> None:
    run = RunFolder(tmp_path)
    run.evaluation.write_bytes(content)
    assert run.finished() is None


@pytest.mark.parametrize("content", [b"", b"a: [", b"\xff\xfe", b"- 1"])
def test_a_damaged_recipe_is_told_in_one_line(tiny: dict[str, Any], tmp_path: Path, content: bytes) -> None:
    run = RunFolder(tmp_path)
    run.checkpoints.mkdir()
    run.recipe_file.write_bytes(content)
    with pytest.raises(RecipeError, match=r"recipe\.yaml is empty or damaged; give another --out") as caught:
        run.open(load_recipe(tiny))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("name", ["checkpoint", "checkpoint-good"])
def test_checkpoints_are_not_kept_through_a_link(tiny: dict[str, Any], tmp_path: Path, name: str) -> None:
    (tmp_path / "outside" / "000000001").mkdir(parents=True)
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / name).symlink_to(tmp_path / "outside")
    with pytest.raises(HoldfastError, match="a link that leads out of"):
        RunFolder(tmp_path / "run").open(load_recipe(tiny))
    assert [place.name for place in (tmp_path / "run").iterdir()] == [name]
