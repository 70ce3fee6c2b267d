"""Figures in prose are those of the raw files."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from holdfast_studies.page import load
from holdfast_studies.results import spread

ROOT = Path(__file__).resolve().parents[2]
TUNED = {"resnet50-ms-tuned": "tuned standard", "adml-a-tuned": "tuned +A", "resnet50-ms": "standard", "adml-a": "+A"}
SEARCHED = {
    "passes per step": "log/passes",
    "R@1": "log/validation R@1",
    "ERS": "val-ers/ERS",
    "robust R@1 at 2/255": "val-ers-2/robust R@1",
    "at 8/255": "val-ers/robust R@1",
}

TESTED = {
    "R@1": "R@1",
    "ERS": "ers-fixed/ERS",
    "under the worst of many attacks at 2/255": "worst/eps=2/255 R@1",
    "at 4/255": "worst/eps=4/255 R@1",
    "at 8/255": "worst/eps=8/255 R@1",
}


def tables(file: str) -> list[list[dict[str, str]]]:
    """Pipe tables of a page, as rows by heading."""
    found = re.findall(r"(?:^\|.*\n)+", (ROOT / file).read_text("utf-8"), re.MULTILINE)
    cells = [[[cell.strip() for cell in line.strip("|\n").split("|")] for line in text.splitlines()] for text in found]
    return [[dict(zip(lines[0], row, strict=True)) for row in lines[2:]] for lines in cells]


def table(file: str, heading: str) -> list[dict[str, str]]:
    """The one that begins with a heading."""
    (found,) = [rows for rows in tables(file) if next(iter(rows[0])) == heading]
    return found


def measured(studies: str, arm: str, figure: str) -> str:
    """A figure of an arm by the first of some studies that ran it."""
    raw = [ROOT / "docs" / "results" / "raw" / "paper" / f"{study}.json" for study in studies.split()]
    found = next((values for file in raw if (values := load(file).results.values(arm, figure))), [])
    assert found, (studies, arm, figure)
    return spread(found, figure)


@pytest.mark.parametrize("row", table("README.md", "recipe"), ids=lambda row: row["recipe"])
def test_the_readmes_recipes(row: dict[str, str]) -> None:
    arm = TUNED[re.findall(r"`(.*?)`", row["recipe"])[0]]
    for figure in ("R@1", "mAP@C"):
        assert row[figure] == measured("A2", arm, figure)


@pytest.mark.parametrize("row", table("README.md", "robust recipe"), ids=lambda row: row["robust recipe"])
def test_the_readmes_robust_recipes(row: dict[str, str]) -> None:
    arm = row["robust recipe"].partition(", with")[0].strip("`")
    for heading, figure in (("R@1", "R@1"), ("ERS", "ers-fixed/ERS"), ("worst case", "worst/eps=2/255 R@1")):
        assert row[heading] == measured("X5", arm, figure)


@pytest.mark.parametrize("row", table("docs/choosing.md", "trial"), ids=lambda row: row["trial"])
def test_trials_on_photographs(row: dict[str, str]) -> None:
    for heading, figure in SEARCHED.items():
        assert row[heading] == measured("X4", row["trial"], figure)


@pytest.mark.parametrize("row", table("docs/choosing.md", "on test classes"), ids=lambda row: row["on test classes"])
def test_recipes_on_photographs(row: dict[str, str]) -> None:
    for heading, figure in TESTED.items():
        assert row[heading] == measured("X5 X3", row["on test classes"], figure)


@pytest.mark.parametrize("row", table("docs/choosing.md", "with ResNet-18"), ids=lambda row: row["with ResNet-18"])
def test_methods_on_photographs(row: dict[str, str]) -> None:
    for heading, figure in {"passes per step": "log/passes", "R@1": "R@1", "ERS": "ers-fixed/ERS"}.items():
        assert row[heading] == measured("H4", row["with ResNet-18"], figure)
