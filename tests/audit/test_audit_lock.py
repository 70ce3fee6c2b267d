"""One process at a time audits by one protocol into one folder."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch

from holdfast.audit import run, runner
from holdfast.cli import main
from holdfast.locks import InUse, locked
from holdfast.models import Embedder

DATA = {"name": "glyphs", "characters": 40, "per_class": 4}


@pytest.fixture
def untrained() -> Embedder:
    torch.manual_seed(0)
    return Embedder("conv-tiny", dim=8)


def test_a_second_audit_is_refused_and_the_first_ends_well(
    untrained: Embedder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = runner.attack_all

    def attack_all(*arguments: Any) -> Any:
        monkeypatch.setattr(runner, "attack_all", real)
        with pytest.raises(InUse, match=r"the ers-fixed audit in .* is in use by process"):
            run(untrained, DATA, limit=3, seed=5, out=tmp_path, device="cpu")
        run(untrained, DATA, protocol="adml", limit=3, out=tmp_path, device="cpu")  # another protocol may
        return real(*arguments)

    monkeypatch.setattr(runner, "attack_all", attack_all)
    audit = run(untrained, DATA, limit=3, out=tmp_path, device="cpu")
    assert json.loads((tmp_path / "audit.json").read_text("utf-8")) == json.loads(json.dumps(audit.document))
    assert (tmp_path / "audit-adml-fixed.json").is_file()
    assert not list((tmp_path / "artifacts").glob("*.lock")) + list((tmp_path / "artifacts").glob(".*.lock"))


def test_the_command_says_so_in_one_line(
    untrained: Embedder, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    untrained.save_pretrained(tmp_path / "model")
    out = tmp_path / "out"
    (out / "artifacts").mkdir(parents=True)
    words = ["audit", str(tmp_path / "model"), "--data", "glyphs", "--out", str(out), "--device", "cpu"]
    with locked(out / "artifacts" / ".ers-fixed.lock", "it"):
        assert main(words) == 2
    said = capsys.readouterr().err.strip().splitlines()
    assert len(said) == 1
    assert said[0].startswith(f"holdfast: the ers-fixed audit in {out} is in use by process")
