"""Training that takes no time, for tests of what is around it."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest

from holdfast_studies import running


def evaluation_of(score: float) -> dict[str, Any]:
    """What a finished run must say of its model, and no more."""
    return {"metrics": {"R@1": score}, "undefined": {}, "skipped": [], "images": 2, "split": "test"}


@dataclasses.dataclass
class FakeTraining:
    """Writes the files of a finished run, or fails as told.

    Args:
        score: R@1 of the models it makes.
        errors: start of a run folder's name → what its training raises.
        folders: names of the run folders that were trained.
        inits: what those started from.
        teachers: what those learnt from.
    """

    score: float = 1.0
    errors: dict[str, Exception] = dataclasses.field(default_factory=dict)
    folders: list[str] = dataclasses.field(default_factory=list)
    inits: list[Any] = dataclasses.field(default_factory=list)
    teachers: list[Any] = dataclasses.field(default_factory=list)

    def __call__(self, plain: dict[str, Any], out: Path, **_: Any) -> Any:
        if not (out / "evaluation.json").exists():
            self.folders.append(out.name)
            self.inits.append(plain["init"])
            self.teachers.append(
                next((extra["model"] for extra in plain["extras"] if extra["name"] == "teacher"), None)
            )
            for name, error in self.errors.items():
                if out.name.startswith(name):
                    raise error
            out.mkdir(parents=True, exist_ok=True)
            (out / "metrics.jsonl").write_text("", "utf-8")
            (out / "evaluation.json").write_text(json.dumps(evaluation_of(self.score)), "utf-8")
        return _Run(out, json.loads((out / "evaluation.json").read_text("utf-8")))


@dataclasses.dataclass
class _Run:
    folder: Path
    evaluation: dict[str, Any]


@pytest.fixture
def fake_training(monkeypatch: pytest.MonkeyPatch) -> FakeTraining:
    """In the place of `train`; every measure finds 1."""
    found = FakeTraining()
    monkeypatch.setattr(running, "train", found)
    monkeypatch.setattr(running, "_measure", lambda *_: {"figures": {"value": found.score}})
    for name in ("passes_per_step", "training_seconds"):
        monkeypatch.setattr(running, name, lambda *_: 1.0)
    return found
