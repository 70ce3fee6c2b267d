"""From the command line: launchers, a stop, another number of processes, a process that dies."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch.distributed as dist
from launching import environment, write_recipe

import holdfast
from holdfast.training.checkpoint import load_checkpoint
from holdfast.training.logs import read_log
from meeting import ended, free_port, start, together

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not dist.is_available() or not dist.is_gloo_available(), reason="needs gloo"),
]


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of one process."""
    folder = tmp_path_factory.mktemp("alone")
    holdfast.train(write_recipe(folder), out=folder / "run", device="cpu")
    return folder / "run"


def losses(run: Path) -> dict[int, float]:
    return {line["step"]: line["loss"] for line in read_log(run / "metrics.jsonl") if "loss" in line}


def same_run(found: Path, expected: Path) -> None:
    """Equal up to the order in which single-precision numbers are added."""
    assert losses(found) == pytest.approx(losses(expected), rel=1e-3)
    one, other = load_checkpoint(found / "checkpoint"), load_checkpoint(expected / "checkpoint")
    assert one is not None
    assert other is not None
    assert one.step == other.step
    for name, tensor in other.tensors.items():
        if name.startswith("model."):
            gap = (one.tensors[name] - tensor).double().norm()
            assert gap <= 1e-3 * tensor.double().norm() + 1e-4, name


@pytest.mark.parametrize("launcher", ["torchrun", "accelerate"])
def test_a_launcher_starts_a_run_of_two(launcher: str, alone: Path, tmp_path: Path) -> None:
    port, run = str(free_port()), tmp_path / "run"
    with_torchrun = ["torch.distributed.run", "--nproc_per_node", "2", "--master_port", port, "-m", "holdfast"]
    # With --cpu, accelerate starts one process: it leaves several to MPI.
    with_accelerate = ["accelerate.commands.launch", "--multi_gpu", "--num_processes", "2", "--main_process_port", port]
    how = with_torchrun if launcher == "torchrun" else [*with_accelerate, "--module", "holdfast"]
    what = ["train", str(write_recipe(tmp_path)), "--out", str(run), "--device", "cpu", "--json"]
    done = subprocess.run(
        [sys.executable, "-m", *how, *what], env=environment(), capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr
    printed = json.loads(done.stdout)  # one result, from one process
    assert printed["metrics"] == json.loads((run / "evaluation.json").read_text("utf-8"))["metrics"]
    assert sorted(f.name for f in run.iterdir()) == sorted(f.name for f in alone.iterdir())
    same_run(run, alone)
    assert all(line["communicated"] > 0 for line in read_log(run / "metrics.jsonl") if "loss" in line)


def test_a_stop_reaches_all_and_one_process_goes_on(alone: Path, tmp_path: Path) -> None:
    run, port = tmp_path / "run", free_port()
    recipe = write_recipe(tmp_path)
    several = [start(rank, 2, port, "train", str(recipe), "--out", str(run), "--device", "cpu") for rank in range(2)]
    wait_for_steps(run, several)
    several[1].send_signal(signal.SIGTERM)
    for code, _, messages in map(ended, several):
        assert code == 130, messages
        assert "stopped at step" in messages
    assert not (run / "evaluation.json").exists()
    holdfast.train(recipe, out=run, device="cpu")
    same_run(run, alone)


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGSTOP])
@pytest.mark.parametrize("dies", [0, 1])
def test_when_a_process_is_gone_the_others_say_so_and_stop(
    dies: int, how: signal.Signals, alone: Path, tmp_path: Path
) -> None:
    run, port = tmp_path / "run", free_port()
    recipe = write_recipe(tmp_path)
    several = [start(rank, 2, port, "train", str(recipe), "--out", str(run), "--device", "cpu") for rank in range(2)]
    wait_for_steps(run, several)
    several[dies].send_signal(how)
    code, _, messages = ended(several[1 - dies], seconds=60)
    several[dies].kill()
    several[dies].communicate()
    last = messages.strip().splitlines()[-1]
    assert code in (1, 2)
    assert "Traceback" not in messages
    assert last.startswith("holdfast: ")
    assert "run the same command again" in last
    holdfast.train(recipe, out=run, device="cpu")
    same_run(run, alone)


def test_what_stops_the_main_process_stops_all(alone: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    shutil.copytree(alone, run)
    other = write_recipe(tmp_path, seed=3)
    for code, _, messages in together(2, "train", str(other), "--out", str(run), "--device", "cpu"):
        assert code == 2
        assert "holds a run of another recipe" in messages
        assert "Traceback" not in messages


@pytest.mark.parametrize("command", ["evaluate", "audit"])
def test_measuring_together_finds_what_one_finds(command: str, alone: Path, tmp_path: Path) -> None:
    out = tmp_path / ("found" if command == "audit" else "found.json")
    more = ["--limit", "40", "--batch", "16", "--seed", "1"] if command == "audit" else []
    what = [command, str(alone), "--data", "glyphs", "--device", "cpu", "--json", *more, "--out"]
    found = together(2, *what, str(out))
    assert [code for code, _, _ in found] == [0, 0], found[0][2] + found[1][2]
    assert found[1][1] == ""
    (code, expected, messages) = together(1, *what, str(tmp_path / ("one" if command == "audit" else "one.json")))[0]
    assert code == 0, messages
    one, two = json.loads(expected), json.loads(found[0][1])
    undefined = {name for name, value in one["metrics"].items() if value is None}
    assert {name for name, value in two["metrics"].items() if value is None} == undefined
    defined = {name: value for name, value in one["metrics"].items() if name not in undefined}
    assert {name: two["metrics"][name] for name in defined} == pytest.approx(defined, rel=1e-4)
    assert two["images"] == one["images"]


def wait_for_steps(run: Path, processes: list[subprocess.Popen[str]]) -> None:
    """Until a first line of the log says that training is under way."""
    while not any("loss" in line for line in read_log(run / "metrics.jsonl")):
        assert all(process.poll() is None for process in processes), [p.communicate() for p in processes]
        time.sleep(0.05)
