"""Adversarial steps and audits on a GPU: the peers' way, ours, and the ceilings, in one process.

    python benchmarks/gpu.py --json gpu-resnet18.json
    python benchmarks/gpu.py --backbone resnet50 --json gpu-resnet50.json

`share` is the time of the row's own passes and nothing else (ceiling.py) over that of our whole step. `share_512` is
images through forward and back per second of our step over what the card does with timm's network, compiled, forward
and back for the pixels alone in batches of 512; `share_512_blocked` has our first layer (models/stem.py) in its place.
Ceilings are `torch.compile` alone; ours also runs layers together where no weight changes (models/fused.py), so that a
step may pass its ceiling.
The peers' way is `peers.py` with timm's network as it comes. `first` is the first step of a regime in a process of its
own that finds a copy of `HOLDFAST_CACHE` and nothing else, as on another machine.
Random weights and images: speed does not depend on them.

Each row is written to the JSON file as soon as it is measured; a second run with the same file goes on with the rows
that are missing or failed. `gpu_tables.py` makes the tables of docs/benchmarks/gpu.md.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import peers
import torch
from ceiling import ETA, Ceiling, passes_of
from steps import REGIMES, TrainingStep
from timing import processor, seconds
from torch import Tensor

from holdfast import attacks, console, losses, regimes
from holdfast.attacks import Budget, References
from holdfast.attacks.frozen import frozen
from holdfast.audit.ers import GOALS
from holdfast.audit.preparation import fitting_batch
from holdfast.files import cache_folder, write_json
from holdfast.models import Embedder
from holdfast.models.bank import batchnorm_layers
from holdfast.models.compile_cache import FOLDER, VARIABLE
from holdfast.models.compiled import CompiledPasses
from holdfast.regimes import Batch

GALLERY = 5924
LARGE = 512
FIRST = ("standard", "hm", "mdprop")
"""Regimes whose first step is timed: the fewest graphs, the usual ones, those of auxiliary BatchNorm sets too."""
ROWS = ("hm", "adml", "act", "standard", "mdprop", "ers", "first")


class Bench:
    """Rows of one backbone.

    Args:
        options: the command line.
    """

    def __init__(self, options: argparse.Namespace) -> None:
        self.options = options
        self.device = torch.device(options.device)
        self.began = time.perf_counter()
        generator = torch.Generator(self.device).manual_seed(0)
        shape = (options.batch, 3, options.size, options.size)
        self.images = torch.rand(shape, device=self.device, generator=generator).contiguous(
            memory_format=torch.channels_last
        )
        self.labels = torch.arange(options.batch, device=self.device) // 2
        self.passes = Ceiling(self.model, self.images, options.repeats)
        name = torch.cuda.get_device_name() if self.device.type == "cuda" else processor(torch.get_num_threads())
        self.about = {
            "device": name,
            "torch": torch.__version__,
            "backbone": options.backbone,
            "size": options.size,
            "batch": options.batch,
        }
        self.rows = self._found()

    def _found(self) -> dict[str, dict[str, Any]]:
        """Rows of an earlier run that was cut short, without those that failed."""
        file = self.options.json
        if not file or not file.exists():
            return {}
        content = json.loads(file.read_text())
        other = [name for name, value in self.about.items() if content.get(name) != value]
        if other:
            raise SystemExit(f"{file} holds rows of another {' and '.join(other)}; give another --json")
        self.passes.ways.update(content.get("passes", {}))
        return {row["row"]: row for row in content["rows"] if "error" not in row}

    def keep(self, name: str, **values: Any) -> dict[str, Any]:
        """Print and keep a row."""
        row = {"row": name, **_rounded(values), "at": round(time.perf_counter() - self.began, 1)}
        self.rows[name] = row
        print(json.dumps(row), flush=True)
        if self.options.json:
            passes = {name: _rounded(ways) for name, ways in self.passes.ways.items()}
            write_json(self.options.json, {**self.about, "passes": passes, "rows": list(self.rows.values())})
        return row

    def model(self) -> Embedder:
        """A fresh model in training mode, as a session of ours lays it out."""
        torch.manual_seed(0)
        options = self.options
        model = Embedder(options.backbone, dim=options.dim, size=options.size, batchnorm="freeze-statistics")
        model.to(self.device, memory_format=torch.channels_last)  # type: ignore[call-overload]
        return model.train()

    def plain(self) -> Embedder:
        """The same with timm's network as it comes: its own first layer, its own memory layout."""
        import timm  # after the embedder, which knows how to import it beside a CPU build of torch

        model = self.model()
        model.backbone = timm.create_model(self.options.backbone, num_classes=0)
        return model.to(self.device, memory_format=torch.contiguous_format).train()  # type: ignore[no-any-return,call-overload]

    def ceiling(self) -> dict[str, Any]:
        """Images per second of input gradients in large batches, timm's network and ours, in plainer ways too."""
        batch = self.options.large
        images = self.images[:1].expand(batch, -1, -1, -1).contiguous(memory_format=torch.channels_last)
        network = self.plain().to(memory_format=torch.channels_last).eval().requires_grad_(False)  # type: ignore[call-overload]
        ours = self.model().eval().requires_grad_(False)
        ways: dict[str, tuple[Callable[[Tensor], Tensor], bool]] = {
            "float32": (network, False),
            "bfloat16": (network, True),
            "compiled": (torch.compile(network), True),
            "blocked_float32": (ours, False),
            "blocked_bfloat16": (ours, True),
            "blocked_compiled": (torch.compile(ours), True),
            "fused": (CompiledPasses(ours), True),
        }
        rates = {}
        for name, (call, half) in ways.items():

            def once(call: Callable[[Tensor], Tensor] = call, half: bool = half) -> None:
                x = images.detach().requires_grad_()
                with torch.autocast(x.device.type, torch.bfloat16, enabled=half and x.device.type == "cuda"):
                    z = call(x)
                torch.autograd.grad(z.float().sum(), x)

            rates[name] = batch / seconds(once, min(10, self.options.repeats))
        return self.keep("ceiling", images=batch, **rates)

    def shares(self, images: float, taken: float, ceiling: float) -> dict[str, float]:
        """The three shares of a row, given its images forward and back, its seconds and those of its own passes."""
        large = self.rows.get("ceiling") or self.ceiling()
        return {
            "ceiling": ceiling,
            "share": ceiling / taken,
            "share_512": images / taken / large["compiled"],
            "share_512_blocked": images / taken / large["blocked_compiled"],
        }

    def regime(self, name: str) -> None:
        """One training step, ours and the peers'."""
        model = self.model()
        if name == "mdprop" and not any(batchnorm_layers(model)):
            self.keep(name, skipped="this network has no BatchNorm layers to have several sets of")
            return
        ours = TrainingStep(model, name, Batch(self.images, self.labels), compiled=True, captured=True)
        mine = seconds(ours, self.options.repeats, warm=6)  # three queued steps, the capture, two replays
        passes = passes_of(name, self.options.batch)
        counted = sum(each.count for each in passes)
        if ours.passes != counted:
            raise RuntimeError(f"a step made {ours.passes} passes, its ceiling {counted}")
        images = sum(each.count * each.images for each in passes)
        values = {
            "ours": mine,
            "captured": ours.captured,
            "passes": counted,
            **self.shares(images, mine, self.passes.of(passes)),
        }
        self._forget()
        theirs = self.peer(name)
        self.keep(name, **values, peers=theirs, ratio=theirs / mine)

    def peer(self, name: str) -> float:
        """Seconds of a step the peers' way."""
        model = self.plain()
        for start in regimes.build(name, **REGIMES[name][2]).sets():
            model.bank.add(model.backbone, start)
        optimizer = torch.optim.Adam(model.parameters(), lr=1e-5)
        loss = losses.build(REGIMES[name][0], **REGIMES[name][1])
        images = self.images.contiguous()
        common = (model, optimizer, images, self.labels)
        works: dict[str, Callable[[], object]] = {
            "standard": lambda: peers._update(model, optimizer, lambda: loss(model(images), self.labels)),
            "hm": lambda: peers.hm_step(*common, ETA),
            "act": lambda: peers.act_step(*common, ETA),
            "adml": lambda: peers.adml_step(*common, 7, loss),
            "mdprop": lambda: peers.mdprop_step(*common, 0.0023, loss),
        }
        return seconds(works[name], 3, warm=1)

    def ers(self) -> None:
        """The nine attacks behind ERS: a gallery of 5,924, one batch the peers' way, several of ours."""
        options = self.options
        model = self.model().eval()
        generator = torch.Generator(self.device).manual_seed(1)
        gallery = torch.nn.functional.normalize(
            torch.randn(GALLERY, options.dim, device=self.device, generator=generator), dim=1
        )
        labels = torch.arange(GALLERY, device=self.device) // 59
        half: Any = "bfloat16" if self.device.type == "cuda" else "float32"
        run = CompiledPasses(model)
        with frozen(model):
            chunk = options.chunk or fitting_batch(model, self.images[:64])
        rows = torch.arange(options.attacked or max(1024, chunk), device=self.device)
        images = self.images[:1].expand(len(rows), -1, -1, -1).contiguous(memory_format=torch.channels_last)
        references = References(gallery, labels)
        budget = Budget(eps=8 / 255, step=3 / 255, steps=options.steps)
        common: dict[str, Any] = {"chunk": chunk, "precision": half, "run": run}
        each = {}
        for name in GOALS:
            goal = attacks.build(name).bind(references, rows, torch.Generator().manual_seed(0))
            few = attacks.build(name).bind(references, rows[:chunk], torch.Generator().manual_seed(0))
            attacks.pgd(model, images[:chunk], few, Budget(eps=8 / 255, step=3 / 255, steps=2), **common)

            def once(goal: attacks.BoundGoal = goal) -> None:
                attacks.pgd(model, images, goal, budget, **common)

            each[name] = seconds(once, 1, warm=0) / len(rows) * GALLERY
        mine = sum(each.values())
        passes = len(GOALS) * options.steps
        shares = self.shares(GALLERY * passes, mine, GALLERY * passes / chunk * self.ideal(chunk))
        self._forget()
        plain = self.plain().eval()
        count = min(112, options.batch)
        batch = (self.images[:count].contiguous(), labels[:count], gallery, labels)
        peers.ers_attacks(plain, *batch, steps=1)
        taken = peers.ers_attacks(plain, *batch, steps=options.steps)
        theirs = sum(taken.values()) / count * GALLERY
        self.keep(
            "ers",
            attacked=len(rows),
            chunk=chunk,
            ours=mine,
            peers=theirs,
            ratio=theirs / mine,
            **shares,
            each=each,
            of_112=taken,
        )

    def ideal(self, count: int) -> float:
        """Seconds of one crafting pass and nothing else."""
        return self.passes.one("craft", count)

    def first(self) -> None:
        """The first step of some regimes, each in a process that finds the graphs of this one in the cache."""
        found = {}
        for name in FIRST:
            if "skipped" in self.rows.get(name, {}):
                continue
            with tempfile.TemporaryDirectory() as fresh:
                if kept := cache_folder():
                    shutil.copytree(kept / FOLDER, Path(fresh) / FOLDER)
                environment = {**os.environ, "HOLDFAST_CACHE": fresh}
                for variable in (VARIABLE, "TRITON_CACHE_DIR"):
                    environment.pop(variable, None)
                command = [sys.executable, str(Path(__file__)), "--first", name]
                for option in ("backbone", "size", "batch", "dim", "device"):
                    command += [f"--{option}", str(getattr(self.options, option))]
                done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
            if done.returncode:
                raise RuntimeError(f"{name}: {done.stderr[-300:]}")
            found[name] = json.loads(done.stdout.splitlines()[-1])
            print(json.dumps({"first": name, **found[name]}), flush=True)
        self.keep("first", ours=max(row["seconds"] for row in found.values()), each=found)

    def first_step(self, name: str) -> dict[str, Any]:
        """Seconds of a regime's first step in this process, and what torch found in its caches."""
        model = self.model()
        self._wait()
        start = time.perf_counter()
        TrainingStep(model, name, Batch(self.images, self.labels), compiled=True, captured=True)()
        self._wait()
        taken = time.perf_counter() - start
        counters = torch._dynamo.utils.counters
        return {
            "seconds": round(taken, 3),
            "graphs": counters["stats"]["unique_graphs"],
            "hits": counters["aot_autograd"]["autograd_cache_hit"],
            "misses": counters["aot_autograd"]["autograd_cache_miss"],
            "bypassed": counters["aot_autograd"]["autograd_cache_bypass"],
        }

    def _wait(self) -> None:
        if self.device.type == "cuda":
            torch.cuda.synchronize()

    def _forget(self) -> None:
        if self.device.type == "cuda":
            torch.cuda.empty_cache()


def _rounded(values: dict[str, Any]) -> dict[str, Any]:
    """Floats with five digits after the point."""
    return {
        name: round(value, 5) if isinstance(value, float) else _rounded(value) if isinstance(value, dict) else value
        for name, value in values.items()
    }


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description="Adversarial steps and audits on a GPU against the peers' way.")
    parser.add_argument("--backbone", default="resnet18")
    parser.add_argument("--size", type=int, default=224)
    parser.add_argument("--batch", type=int, default=112)
    parser.add_argument("--dim", type=int, default=512)
    parser.add_argument("--large", type=int, default=LARGE, help="images per pass of the ceiling in large batches")
    parser.add_argument("--attacked", type=int, help="images attacked in the ERS row; a pass, and 1024 at least")
    parser.add_argument("--chunk", type=int, help="images per pass in the ERS row; as an audit chooses them")
    parser.add_argument("--steps", type=int, default=32, help="of the attacks in the ERS row")
    parser.add_argument("--repeats", type=int, default=10)
    parser.add_argument("--rows", nargs="+", choices=ROWS, default=ROWS)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--benchmark", action="store_true", help="let cuDNN try its algorithms")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--first", choices=tuple(REGIMES), help="time the first step of this regime, and that alone")
    options = parser.parse_args(arguments)
    torch.backends.cudnn.benchmark = options.benchmark
    bench = Bench(options)
    if options.first:
        print(json.dumps(bench.first_step(options.first)))
        return
    works: dict[str, Callable[[], None]] = {"ers": bench.ers, "first": bench.first}
    for name in options.rows:
        if name in bench.rows:
            continue
        try:
            with console.shown():  # why a step is not captured
                works.get(name, partial(bench.regime, name))()
        except Exception as error:  # one row that fails must not lose the others
            bench.keep(name, error=f"{type(error).__name__}: {error}"[:500])


if __name__ == "__main__":
    main()
