"""Memory that runs out ends a command with one line that says what to do."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
import yaml

import holdfast.evaluation
from holdfast.cli import main
from holdfast.models import Embedder
from holdfast.training import captured
from holdfast.training.checkpoint import load_checkpoint

HOST = RuntimeError("[enforce fail at alloc_cpu.cpp:127] err == 0. DefaultCPUAllocator: can't allocate memory")
GPU = torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB.\nGPU 0 has a total capacity of 1 GiB")
CUBLAS = RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`")


def failing(error: BaseException) -> Any:
    def fail(*arguments: Any, **options: Any) -> Any:
        raise error

    return fail


@pytest.fixture
def words(tmp_path: Path, photos: Path) -> list[str]:
    Embedder("conv-tiny", dim=8).save_pretrained(tmp_path / "model")
    return ["evaluate", str(tmp_path / "model"), "--data", f"folder:{photos}", "--device", "cpu"]


@pytest.mark.parametrize(
    ("error", "whose"), [(MemoryError(), "computer"), (HOST, "computer"), (GPU, "GPU"), (CUBLAS, "GPU")]
)
def test_the_line_says_whose_memory_and_what_to_do(
    error: BaseException,
    whose: str,
    words: list[str],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(holdfast.evaluation, "embed", failing(error))
    for more, advice in (([], "--batch 128"), (["--batch", "6"], "--batch 3"), (["--batch", "1"], "end what else")):
        assert main([*words, *more]) == 2
        said = capsys.readouterr().err.strip().splitlines()
        assert len(said) == 1
        assert said[0].startswith(f"holdfast: the {whose}'s memory ran out; ")
        assert advice in said[0]
    assert "--batch" not in said[0], "there is nothing smaller than 1"


def test_another_error_is_not_mistaken_for_it(words: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(holdfast.evaluation, "embed", failing(RuntimeError("shapes do not match")))
    with pytest.raises(RuntimeError, match="shapes"):
        main(words)


@pytest.mark.parametrize("error", [MemoryError(), GPU])
def test_a_training_keeps_its_checkpoint_and_goes_on(
    error: BaseException,
    tiny: dict[str, Any],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    recipe, run = tmp_path / "recipe.yaml", tmp_path / "run"
    recipe.write_text(yaml.safe_dump(tiny), "utf-8")
    words = ["train", str(recipe), "--out", str(run), "--device", "cpu", "--json"]
    real, steps = captured.one_step, iter(range(1000))
    monkeypatch.setattr(captured, "one_step", lambda *a: failing(error)() if next(steps) == 6 else real(*a))
    assert main(words) == 2
    said = capsys.readouterr().err.strip().splitlines()
    assert "memory ran out" in said[-1]
    assert "--set batch.classes=" in said[-1]
    assert not any("Traceback" in line for line in said)
    saved = load_checkpoint(run / "checkpoint")
    assert saved is not None
    assert saved.step == 4
    assert main(words) == 0
    assert (run / "evaluation.json").is_file()
