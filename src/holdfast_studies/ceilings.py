"""How many images a machine can pass through a network, forward and back, when it does nothing else."""

from __future__ import annotations

import dataclasses
import os
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, TypeAlias

import torch

from holdfast import console
from holdfast.devices import choose_device
from holdfast.errors import HoldfastError, reason
from holdfast.files import write_json
from holdfast.models import ModelConfig
from holdfast.models.compiled import CompiledPasses
from holdfast.run_files import block, finite, parse_json
from holdfast_studies.jobs import Cell, Training

Network: TypeAlias = tuple[str, int | None, int | None]
"""Backbone, input size and length of the embedding: what is compiled to measure it, cells find compiled."""

BATCH = 512
"""Images per pass on a GPU."""
PIXELS = 2**17
"""Of a pass elsewhere, which has eight images at least."""

SECONDS, WINDOWS = 0.2, 5
"""To measure for, and how often; the fastest counts, since something else may have been in the way of others."""

RATES, JOBS, SETTLED = "images_per_second", "jobs", "jobs_settled"
"""What a machine's file holds of a device, each by network."""


def network(cell: Cell) -> Network | None:
    """The network that a cell trains."""
    if not isinstance(cell.job, Training):
        return None
    model = cell.job.resolved(cell.seed).model
    return model.backbone, model.size, model.dim


@dataclasses.dataclass(frozen=True)
class Machine:
    """What is known of a device for some networks.

    Args:
        name: of its kind.
        ceilings: images per second of each network; one that cannot be built is left out: its cells will say why.
        jobs: how many side by side were found to pay for all of them, None where that is not known.
        settled: more were tried and do not.
    """

    name: str
    ceilings: dict[Network, float]
    jobs: int | None = None
    settled: bool = False


def look_at_machine(networks: Iterable[Network], device: str | None, file: Path) -> Machine:
    """Measure what is not known yet of a device, and keep it in a file."""
    place = choose_device(device)
    name = torch.cuda.get_device_name(place) if place.type == "cuda" else f"{cores()} CPU cores"
    wanted = {_key(one): one for one in networks}
    known = block(block(_stored(file), name), RATES)
    for key in [key for key in wanted if not finite(known.get(key))]:
        try:
            measured = measure_ceiling(wanted[key], place)
        except (HoldfastError, OSError, RuntimeError) as error:
            console.say(f"what the machine can do with {key} is not known: {reason(error)}")
        else:
            known = _remember(file, name, RATES, {key: round(measured, 1)})
    counts = block(block(_stored(file), name), JOBS)
    jobs = [int(count) for key in wanted if (count := finite(counts.get(key)))]
    settled = block(block(_stored(file), name), SETTLED)
    found = {one: rate for key, one in wanted.items() if (rate := finite(known.get(key)))}
    known_jobs = min(jobs) if jobs and len(jobs) == len(wanted) else None
    return Machine(name, found, known_jobs, all(settled.get(key) is True for key in wanted))


def forget_ceilings(machine: Machine, file: Path) -> None:
    """Measure again next time."""
    _remember(file, machine.name, RATES, dict.fromkeys(map(_key, machine.ceilings)))


def remember_jobs(machine: Machine, jobs: int, settled: bool, file: Path) -> None:
    """Keep how many side by side were found to pay, and whether more do not."""
    _remember(file, machine.name, JOBS, {_key(one): jobs for one in machine.ceilings})
    _remember(file, machine.name, SETTLED, {_key(one): settled for one in machine.ceilings})


def _key(wanted: Network) -> str:
    return " ".join(str(part) for part in wanted if part)


def _remember(file: Path, name: str, part: str, values: dict[str, Any]) -> dict[str, Any]:
    """Add values to a part of what is known of a device; returns the part."""
    stored = _stored(file)
    own = block(stored, name)
    own[part] = {**block(own, part), **values}
    file.parent.mkdir(parents=True, exist_ok=True)
    write_json(file, {**stored, name: own})
    found: dict[str, Any] = own[part]
    return found


def _stored(file: Path) -> dict[str, Any]:
    try:
        found = parse_json(file.read_text("utf-8"))
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def measure_ceiling(wanted: Network, device: torch.device) -> float:
    """Images per second through forward and back, for the gradient of the pixels alone.

    On a GPU compiled, in bfloat16 where it has that, in large batches; on a CPU with all its cores.
    """
    backbone, size, dim = wanted
    model = ModelConfig(backbone=backbone, size=size, dim=dim).build()
    model.to(device, memory_format=torch.channels_last).eval().requires_grad_(False)  # type: ignore[call-overload]
    on_gpu = device.type == "cuda"
    half = on_gpu and torch.cuda.is_bf16_supported()
    call = CompiledPasses(model) if on_gpu else model
    batch, threads = BATCH if on_gpu else max(8, PIXELS // model.size**2), torch.get_num_threads()
    images = torch.rand((batch, 3, model.size, model.size), device=device).to(memory_format=torch.channels_last)

    def once() -> None:
        x = images.detach().requires_grad_()
        with torch.autocast(device.type, torch.bfloat16, enabled=half):
            z = call(x)
        torch.autograd.grad(z.float().sum(), x)[0].flatten()[0].item()  # waits for the device

    torch.set_num_threads(cores())
    try:
        once()
        once()
        return batch * max(_per_second(once) for _ in range(WINDOWS))
    finally:
        torch.set_num_threads(threads)


def _per_second(once: Callable[[], None]) -> float:
    """How often something can be done."""
    done, start = 0, time.perf_counter()
    while time.perf_counter() < start + SECONDS:
        once()
        done += 1
    return done / (time.perf_counter() - start)


def cores() -> int:
    """Processors that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
