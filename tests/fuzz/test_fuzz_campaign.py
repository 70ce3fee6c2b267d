"""The campaign of `tools/fuzz.py`: its parts are the whole, and their figures add up."""

from __future__ import annotations

import importlib.util
import json
import math
import sys
from pathlib import Path
from types import ModuleType

import pytest
from fuzzing import Target

TARGETS = [Target("a", lambda draw, folder: None, 7), Target("b", lambda draw, folder: None, 1)]


@pytest.fixture(scope="module")
def tool() -> ModuleType:
    file = Path(__file__).resolve().parents[2] / "tools" / "fuzz.py"
    spec = importlib.util.spec_from_file_location("fuzz_tool", file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["fuzz_tool"] = module
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(("count", "parts"), [(100_000, 40), (5000, 7), (1000, 3), (9, 4)])
def test_every_input_is_in_one_part(tool: ModuleType, count: int, parts: int) -> None:
    found: dict[str, list[int]] = {"a": [], "b": []}
    for part in range(1, parts + 1):
        for target, numbers in tool._portions(TARGETS, count, part, parts):
            found[target.name] += numbers
    assert {name: len(numbers) for name, numbers in found.items()} == {
        target.name: math.ceil(count * target.share / 8) for target in TARGETS
    }
    assert all(numbers == list(range(len(numbers))) for numbers in found.values())


def test_figures_of_parts_add_up(tool: ModuleType, tmp_path: Path) -> None:
    for number, failures in enumerate(([], [17])):
        tally = tool.Tally(seconds=1.5, slowest=0.1 + number, failures=failures)
        tally.counts.update(accepted=10, failed=len(failures))
        (tmp_path / f"{number}.json").write_text(json.dumps({"csv": vars(tally)}))
    whole = tool.added([tmp_path / "0.json", tmp_path / "1.json"])
    assert whole["csv"] == tool.Tally(whole["csv"].counts, 3.0, 1.1, [17])
    assert whole["csv"].counts == {"accepted": 20, "failed": 1}
    assert "| csv | 21 | 20 | 0 | 1 | 1.10 s |" in tool.table(whole)
