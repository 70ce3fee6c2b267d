"""A few inputs of every fuzz target, and those that once failed; `make fuzz` runs the campaign."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from fuzzing import Hang, Target, Wrong, judge
from targets import TARGETS

from holdfast.errors import DataError, HoldfastError

STORED: dict[str, list[int]] = json.loads((Path(__file__).parent / "seeds.json").read_text("utf-8"))
EACH = 12
BY_NAME = {target.name: target for target in TARGETS}


@pytest.mark.parametrize("name", BY_NAME)
def test_a_few_inputs(name: str, tmp_path: Path) -> None:
    for seed in range(EACH):
        verdict = judge(BY_NAME[name], seed, tmp_path / "input")
        assert verdict.outcome != "failed", f"python tools/fuzz.py --target {name} --seed {seed}\n{verdict.detail}"


@pytest.mark.parametrize(("name", "seed"), [(name, seed) for name, seeds in STORED.items() for seed in seeds])
def test_inputs_that_once_failed(name: str, seed: int, tmp_path: Path) -> None:
    verdict = judge(BY_NAME[name], seed, tmp_path / "input")
    assert verdict.outcome != "failed", verdict.detail


def test_names_are_different_and_every_target_has_a_share() -> None:
    assert len(BY_NAME) == len(TARGETS)
    assert all(target.share > 0 for target in TARGETS)
    assert STORED.keys() <= BY_NAME.keys()


def test_an_input_is_made_from_its_number_alone(tmp_path: Path) -> None:
    made: list[bytes] = []
    target = Target("same", lambda draw, folder: made.append(draw.randbytes(8)), 1)
    for seed in (3, 3, 4):
        judge(target, seed, tmp_path / "input")
    assert made[0] == made[1] != made[2]


@pytest.mark.parametrize(
    ("error", "outcome"),
    [
        (None, "accepted"),
        (DataError("no images; add some"), "refused"),
        (HoldfastError(""), "failed"),
        (KeyError("x"), "failed"),
        (Wrong("a row is missing"), "failed"),
        (SystemExit(0), "failed"),
        (Hang(), "failed"),
    ],
)
def test_what_counts_as_a_failure(error: BaseException | None, outcome: str, tmp_path: Path) -> None:
    def run(draw: object, folder: Path) -> None:
        if error is not None:
            raise error

    assert judge(Target("one", run, 1), 0, tmp_path / "input").outcome == outcome


def test_an_input_that_never_ends_is_a_failure(tmp_path: Path) -> None:
    def run(draw: object, folder: Path) -> None:
        while True:
            pass

    verdict = judge(Target("endless", run, 1, seconds=0.05), 0, tmp_path / "input")
    assert verdict.outcome == "failed"
    assert "still busy" in verdict.detail
