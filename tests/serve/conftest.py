"""An index of pictures, and a service of it."""

from __future__ import annotations

from pathlib import Path

import pytest
from served import COUNT

from holdfast.search import Searcher, create_index, read_index
from holdfast.serve import Service
from index_cases import picture_table, pictures, small_model


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A calibrated index of pictures."""
    place = tmp_path_factory.mktemp("served") / "pictures.index"
    thresholds = ((0.01, 0.3),)
    create_index(place, small_model(), picture_table(pictures(COUNT)), reference="small", thresholds=thresholds)
    return place


@pytest.fixture(scope="session")
def service(folder: Path) -> Service:
    return Service(Searcher(read_index(folder), false_alarms=0.02), small_model())
