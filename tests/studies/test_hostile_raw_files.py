"""Raw results that a stranger wrote: what a page would stumble over is refused when they are read."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from holdfast.errors import HoldfastError
from holdfast_studies import base
from holdfast_studies.document import plain_job
from holdfast_studies.page import load, page_text
from holdfast_studies.recorded import names, recipe_of

CELL = {"seed": 0, "figures": {"R@1": 5.0}, "series": {}, "seconds": 1.5, "stopped": None}
PLACE = {"device": "CPU", "versions": {"holdfast": "0"}, "files": ["weights.pth"]}
ARM = base.get("A1").arms("pocket")[0]
JOB = {**plain_job(ARM.job), "backbone": "conv-small"}


def raw(file: Path, change: Callable[[dict[str, Any]], None] = lambda arm: None) -> Path:
    """A raw file of one arm."""
    arm: dict[str, Any] = {
        "job": dict(JOB),
        "recipe": recipe_of(ARM.job),
        "planned": [0],
        "cells": [{**CELL, "place": dict(PLACE)}],
    }
    change(arm)
    content = {"schema": 1, "study": "A1", "scale": "pocket", "changes": names(), "arms": {ARM.name: arm}}
    file.write_text(json.dumps(content))
    return file


def test_a_whole_one_has_a_page(tmp_path: Path) -> None:
    found = load(raw(tmp_path / "A1.json"))
    assert "conv-small on glyphs, 24 epochs" in page_text("pocket", [found], {})


@pytest.mark.parametrize(
    "change",
    [
        lambda arm: arm["job"].pop("backbone"),
        lambda arm: arm["job"].update(data=["glyphs"]),
        lambda arm: arm["job"].update(data={"name": 3}),
        lambda arm: arm["job"].update(epochs="many"),
        lambda arm: arm["job"].update(measures=3),
        lambda arm: arm["job"].update(measures=["fixed"]),
        lambda arm: arm.update(recipe=[1]),
        lambda arm: arm.update(job=[1]),
        lambda arm: arm.update(cells={"a": 1}),
        lambda arm: arm["cells"][0].update(stopped=["x"]),
        lambda arm: arm["cells"][0].update(seconds=float("inf")),
        lambda arm: arm["cells"][0]["place"].update(versions=["x"]),
        lambda arm: arm["cells"][0]["place"].update(versions={"x": 1}),
        lambda arm: arm["cells"][0]["place"].update(files="weights.pth"),
        lambda arm: arm["cells"][0]["place"].update(files=[{}]),
        lambda arm: arm["cells"][0].update(flags=["collapse"]),
        lambda arm: arm["cells"][0].update(flags={"ers-fixed": "collapse"}),
        lambda arm: arm["cells"][0].update(flags={"ers-fixed": [1]}),
    ],
)
def test_others_are_refused_in_one_line(change: Callable[[dict[str, Any]], None], tmp_path: Path) -> None:
    with pytest.raises(HoldfastError, match="no raw result"):
        load(raw(tmp_path / "A1.json", change))
