"""The command that a page prints for a study is one that runs all of it."""

from __future__ import annotations

import pytest
from small_study import registered

from holdfast_studies import base
from holdfast_studies.command import check_weights
from holdfast_studies.jobs import SCALES, Scale, Training
from holdfast_studies.running import Places


def test_datasets_and_weights_are_named() -> None:
    with registered() as small:
        assert small.invocation("pocket") == "holdfast study X9 --scale pocket"
        assert small.invocation("paper") == "holdfast study X9 --scale paper --place cub=DIR"
    weights = "--weights resnet18=FILE"
    assert base.get("H2").invocation("paper") == f"holdfast study H2 --scale paper --place cub=DIR {weights}"


@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("name", ["A2", "E1", "E3", "E6", "G1", "H4", "M1", "X1"])
def test_no_cell_lacks_a_place_and_no_weights_are_refused(name: str, scale: Scale) -> None:
    study = base.get(name)
    before, _, given = study.invocation(scale).partition(" --weights ")
    places = before.partition(" --place ")[2].split()
    weights = {word.removesuffix("=FILE") for word in given.split()}
    here = Places(data={word.removesuffix("=DIR"): "." for word in places})
    for cell in study.cells(scale):
        start = cell.job.first(0) if isinstance(cell.job, Training) else None
        assert [here.lacks(one) for one in (cell, start) if one is not None] in ([None], [None, None])
        assert cell.job.fetched is None or cell.job.fetched in weights
    check_weights(weights, [study], scale)
