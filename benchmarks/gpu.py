"""Adversarial steps and audits on a GPU: the peers' way, ours, and the raw ceiling, in one process.

    python benchmarks/gpu.py --backbone resnet18 --json gpu-resnet18.json

The ceiling is what the card does when timm's network, compiled, in bfloat16, channels-last, is run forward and back for
the pixels alone, and nothing else happens. `share` is images through forward and back per second of our whole step
(mining, crafting, update) over that; `share_blocked` is over the same ceiling with our first layer (models/stem.py) in
place of timm's. The peers' way is `peers.py` with timm's network as it comes. Random weights and images: speed does not
depend on them. Each row is written to the JSON file as soon as it is measured.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import peers
import torch
from steps import REGIMES, TrainingStep
from torch import Tensor

from holdfast import attacks, losses, regimes
from holdfast.attacks import Budget, References
from holdfast.audit.ers import GOALS
from holdfast.models import Embedder
from holdfast.models.compiled import CompiledPasses
from holdfast.regimes import Batch

ETA = 8
GALLERY = 5924


def seconds(work: Callable[[], object], repeats: int, warm: int = 2) -> float:
    """Median time of a call, the device waited for."""
    times = []
    for number in range(repeats + warm):
        torch.cuda.synchronize()
        start = time.perf_counter()
        work()
        torch.cuda.synchronize()
        if number >= warm:
            times.append(time.perf_counter() - start)
    return statistics.median(times)


def shares(rate: float, ceiling: tuple[float, float]) -> dict[str, float]:
    """Images per second over the two ceilings."""
    return {"share": rate / ceiling[0], "share_blocked": rate / ceiling[1]}


class Bench:
    """Rows of one backbone.

    Args:
        options: the command line.
    """

    def __init__(self, options: argparse.Namespace) -> None:
        self.options = options
        self.device = torch.device("cuda")
        self.began = time.perf_counter()
        self.rows: list[dict[str, Any]] = []
        generator = torch.Generator(self.device).manual_seed(0)
        shape = (options.batch, 3, options.size, options.size)
        self.images = torch.rand(shape, device=self.device, generator=generator).contiguous(
            memory_format=torch.channels_last
        )
        self.labels = torch.arange(options.batch, device=self.device) // 2

    def model(self) -> Embedder:
        """A fresh model in training mode, as a session of ours lays it out."""
        torch.manual_seed(0)
        model = Embedder(self.options.backbone, dim=512, size=self.options.size, batchnorm="freeze-statistics")
        model.to(self.device, memory_format=torch.channels_last)
        return model.train()

    def plain(self) -> Embedder:
        """The same with timm's network as it comes: its own first layer, its own memory layout."""
        import timm  # after the embedder, which knows how to import it beside a CPU build of torch

        model = self.model()
        model.backbone = timm.create_model(self.options.backbone, num_classes=0)
        return model.to(self.device, memory_format=torch.contiguous_format).train()

    def row(self, name: str, **values: Any) -> None:
        """Print and keep a row."""
        self.rows.append({"row": name, **values, "at": round(time.perf_counter() - self.began, 1)})
        print(json.dumps(self.rows[-1]), flush=True)
        if self.options.json:
            hardware = {"device": torch.cuda.get_device_name(), "torch": torch.__version__}
            content = {**hardware, "backbone": self.options.backbone, "size": self.options.size, "rows": self.rows}
            self.options.json.write_text(json.dumps(content, indent=1))

    def ceiling(self, batch: int) -> tuple[float, float]:
        """Images per second of compiled input gradients, timm's network and ours; plainer ways for the record."""
        images = self.images[:1].expand(batch, -1, -1, -1).contiguous(memory_format=torch.channels_last)
        network = self.plain().to(memory_format=torch.channels_last).eval().requires_grad_(False)  # type: ignore[call-overload]
        ours = self.model().eval().requires_grad_(False)
        ways: dict[str, tuple[Callable[[Tensor], Tensor], bool]] = {
            "float32": (network, False),
            "bfloat16": (network, True),
            "compiled": (CompiledPasses(network), True),
            "blocked_float32": (ours, False),
            "blocked_bfloat16": (ours, True),
            "blocked_compiled": (CompiledPasses(ours), True),
        }
        rates = {}
        for name, (call, half) in ways.items():

            def once(call: Callable[[Tensor], Tensor] = call, half: bool = half) -> None:
                x = images.detach().requires_grad_()
                with torch.autocast("cuda", torch.bfloat16, enabled=half):
                    z = call(x)
                torch.autograd.grad(z.float().sum(), x)

            rates[name] = batch / seconds(once, 10)
        self.row("ceiling", batch=batch, **{name: round(rate, 1) for name, rate in rates.items()})
        return rates["compiled"], rates["blocked_compiled"]

    def regime(self, name: str, ceiling: tuple[float, float]) -> None:
        """One training step, ours and the peers'."""
        ours = TrainingStep(self.model(), name, Batch(self.images, self.labels), compiled=True)
        start = time.perf_counter()
        ours()
        torch.cuda.synchronize()
        first = time.perf_counter() - start
        mine = seconds(ours, self.options.repeats)
        images = self.passed(name)
        values = {"ours": mine, "first": first, "passes": ours.passes}
        values |= shares(images / mine, ceiling)
        torch.cuda.empty_cache()
        theirs = self.peer(name)
        values |= {"peers": theirs, "ratio": theirs / mine}
        self.row(name, **{k: round(v, 5) for k, v in values.items()})

    def passed(self, name: str) -> int:
        """Images that go forward and back in one step."""
        batch, triplets = self.options.batch, self.options.batch // 2
        if name == "hm":
            return (ETA + 1) * 3 * triplets
        if name == "act":
            return ETA * 2 * triplets + 3 * triplets
        return batch * {"standard": 1, "adml": 7 + 2, "mdprop": 3 + 2}[name]

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

    def ers(self, ceiling: tuple[float, float]) -> None:
        """The nine attacks behind ERS: a gallery of 5,924, one batch the peers' way, several of ours."""
        model = self.model().eval()
        generator = torch.Generator(self.device).manual_seed(1)
        gallery = torch.nn.functional.normalize(
            torch.randn(GALLERY, 512, device=self.device, generator=generator), dim=1
        )
        labels = torch.arange(GALLERY, device=self.device) // 59
        rows = torch.arange(self.options.attacked, device=self.device)
        images = self.images[:1].expand(len(rows), -1, -1, -1).contiguous(memory_format=torch.channels_last)
        references = References(gallery, labels)
        budget = Budget(eps=8 / 255, step=3 / 255, steps=32)
        run = CompiledPasses(model)
        each = {}
        for name in GOALS:
            goal = attacks.build(name).bind(references, rows, torch.Generator().manual_seed(0))

            def once(goal: attacks.BoundGoal = goal) -> None:
                attacks.pgd(model, images, goal, budget, chunk=self.options.chunk, precision="bfloat16", run=run)

            each[name] = seconds(once, 1, warm=1)
        mine = sum(each.values()) / len(rows)
        plain = self.plain().eval()
        count = min(112, self.options.batch)
        batch = (self.images[:count].contiguous(), labels[:count], gallery, labels)
        peers.ers_attacks(plain, *batch, steps=1)
        taken = peers.ers_attacks(plain, *batch)
        theirs = sum(taken.values()) / count
        self.row(
            "ers",
            attacked=len(rows),
            seconds_per_1000=round(1000 * mine, 2),
            seconds_for_5924=round(GALLERY * mine, 1),
            peers_for_5924=round(GALLERY * theirs, 1),
            ratio=round(theirs / mine, 2),
            **{name: round(value, 3) for name, value in shares(len(GOALS) * 32 / mine, ceiling).items()},
            each={name: round(value / len(rows) * GALLERY, 2) for name, value in each.items()},
            peers_per_112={name: round(value, 3) for name, value in taken.items()},
        )


def main() -> None:
    parser = argparse.ArgumentParser(description="Adversarial steps and audits on a GPU against the peers' way.")
    parser.add_argument("--backbone", default="resnet18")
    parser.add_argument("--size", type=int, default=224)
    parser.add_argument("--batch", type=int, default=112)
    parser.add_argument("--attacked", type=int, default=1024, help="images attacked in the ERS row")
    parser.add_argument("--chunk", type=int, default=512, help="images per pass in the ERS row")
    parser.add_argument("--repeats", type=int, default=20)
    parser.add_argument("--rows", nargs="+", default=["hm", "ers", "adml", "act", "standard", "mdprop"])
    parser.add_argument("--benchmark", action="store_true", help="let cuDNN try its algorithms")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    torch.backends.cudnn.benchmark = options.benchmark
    bench = Bench(options)
    found = [bench.ceiling(batch) for batch in (512, 168)]
    ceiling = (max(plain for plain, _ in found), max(blocked for _, blocked in found))
    for name in options.rows:
        try:
            if name == "ers":
                bench.ers(ceiling)
            else:
                bench.regime(name, ceiling)
        except Exception as error:  # one row that fails must not lose the others
            bench.row(name, error=f"{type(error).__name__}: {error}"[:500])


if __name__ == "__main__":
    main()
