"""Kill a training command again and again; whatever is left must end like an uninterrupted run."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml
from regime_recipes import HM, MDPROP
from safetensors.torch import load_file

# Runs the command line, but kills its own process at the nth write that reaches the disk: the moments a random delay
# almost never hits (half of a checkpoint written, a model renamed but not yet recorded).
SELF_KILL = """
import os, signal, sys
left = int(sys.argv.pop(1))
real = os.fsync
def fsync(descriptor):
    global left
    left -= 1
    if left == 0:
        os.kill(os.getpid(), signal.SIGKILL)
    real(descriptor)
os.fsync = fsync
from holdfast.cli import main
sys.exit(main(sys.argv[1:]))
"""

# Runs the last words of a command line, then the first ones: a process that resumes one run, and trains another.
AND_THEN = """
import sys
from holdfast.cli import main
count, words = int(sys.argv[1]), sys.argv[2:]
sys.exit(main(words[count:]) or main(words[:count]))
"""


class Command:
    """A training command that can be started, killed and finished."""

    def __init__(self, recipe: dict[str, Any], folder: Path) -> None:
        folder.mkdir()
        self.out = folder / "run"
        file = folder / "recipe.yaml"
        file.write_text(yaml.safe_dump(recipe))
        self.words = ["train", str(file), "--out", str(self.out), "--json", "--device", "cpu"]
        self.environment = {**os.environ, "OMP_NUM_THREADS": "1"}

    def start(self, *python: str) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            [sys.executable, *python, *self.words],
            env=self.environment,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
        )

    def finish(self, then: Command | None = None) -> dict[str, torch.Tensor]:
        """Run to the end, and another command in the same process; every weight, auxiliary BatchNorm sets included."""
        after = ("-c", AND_THEN, str(len(then.words)), *then.words) if then else ("-m", "holdfast")
        process = self.start(*after)
        _, errors = process.communicate()
        assert process.returncode == 0, errors.decode()
        return self.weights()

    def weights(self) -> dict[str, torch.Tensor]:
        """Of a finished run."""
        return {
            f"{which}/{file.stem}/{name}": tensor
            for which in ("model", "last")
            for file in sorted((self.out / which).glob("*.safetensors"))
            for name, tensor in load_file(file).items()
        }

    def killed_at_write(self, write: int) -> bool:
        """Let it die at its nth synced write; False if it finished before."""
        process = self.start("-c", SELF_KILL, str(write))
        _, errors = process.communicate()
        assert process.returncode in (0, -signal.SIGKILL), errors.decode()
        return process.returncode != 0

    def killed_after(self, seconds: float) -> bool:
        """Kill it after a delay; False if it finished before."""
        process = self.start("-m", "holdfast")
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline and process.poll() is None:
            time.sleep(0.01)
        finished = process.poll() is not None
        process.kill()
        _, errors = process.communicate()
        assert not finished or process.returncode == 0, errors.decode()
        return not finished


def assert_same(a: dict[str, torch.Tensor], b: dict[str, torch.Tensor]) -> None:
    assert a.keys() == b.keys()
    assert [name for name in a if not torch.equal(a[name], b[name])] == []


def test_killed_in_the_middle_of_writing(tiny: dict[str, Any], tmp_path: Path) -> None:
    """A process of its own, killed inside its first checkpoint; tests/faults kills many, again and again."""
    broken, whole = Command(tiny, tmp_path / "broken"), Command(tiny, tmp_path / "whole")
    assert broken.killed_at_write(8)
    resumed = broken.finish(then=whole)
    assert_same(whole.weights(), resumed)


@pytest.mark.slow
@pytest.mark.parametrize("change", [MDPROP, HM], ids=["mdprop", "hm"])
def test_a_regime_with_sets_or_a_memory_is_killed(tiny: dict[str, Any], change: dict[str, Any], tmp_path: Path) -> None:
    recipe = {**tiny, **change, "checkpoint_every": 1}
    whole = Command(recipe, tmp_path / "whole").finish()
    assert any("/batchnorm/" in name for name in whole) == (change is MDPROP)
    broken = Command(recipe, tmp_path / "broken")
    assert all(broken.killed_at_write(write) for write in (12, 7, 5, 9))
    assert_same(whole, broken.finish())


@pytest.mark.slow
@pytest.mark.parametrize("write", range(1, 25))
def test_killed_at_every_write(tiny: dict[str, Any], write: int, tmp_path: Path) -> None:
    tiny["checkpoint_every"] = 1  # so that there are more writes than this campaign kills at
    whole = Command(tiny, tmp_path / "whole").finish()
    broken = Command(tiny, tmp_path / "broken")
    assert broken.killed_at_write(write)
    broken.killed_at_write(write)
    assert_same(whole, broken.finish())


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_killed_at_random_moments(tiny: dict[str, Any], seed: int, tmp_path: Path) -> None:
    often = {"evaluate_every": 100, "checkpoint_every": 20, "log_every": 20}
    recipe = {**tiny, **often, "epochs": 400, "ema": 0.99, "seed": seed}
    draw = random.Random(seed)
    whole = Command(recipe, tmp_path / "whole").finish()
    broken = Command(recipe, tmp_path / "broken")
    kills = sum(broken.killed_after(draw.uniform(3.0, 6.0)) for _ in range(8))
    assert kills >= 3
    assert_same(whole, broken.finish())
