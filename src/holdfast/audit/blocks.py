"""Attacking block by block, alone or with the blocks sharded over processes."""

from __future__ import annotations

import time

import torch
from safetensors.torch import load, save
from torch import Tensor

from holdfast import console, seeds
from holdfast.audit.base import Part
from holdfast.audit.state import SECONDS, AuditState, joined
from holdfast.audit.subject import Subject
from holdfast.processes import ALONE, current_processes, use_processes

Measured = dict[str, Tensor]


def attack_all(
    parts: list[Part], subject: Subject, state: AuditState | None
) -> tuple[dict[str, Measured], dict[str, float]]:
    """Every block of every part, from the state where it is known; measurements and seconds by part.

    Several processes attack a block each at a time, and all of them get all measurements.

    Args:
        parts: the attacks.
        subject: what is attacked.
        state: what is known already; the main process alone has one.
    """
    processes = current_processes()
    measured: dict[str, Measured] = {}
    seconds: dict[str, float] = {}
    with console.bar(len(parts) * len(subject.rows), unit="image", what="attacking") as bar:
        for part in parts:
            bar.set_description(f"attacking: {part.name}")
            blocks = part.blocks(len(subject.rows), subject.block)
            found = from_main(_known(part, blocks, state))
            bar.update(sum(_rows(blocks[number]) for number in found))
            unknown = [number for number in range(len(blocks)) if number not in found]
            for first in range(0, len(unknown), processes.world):
                at_once = unknown[first : first + processes.world]
                made: Measured = {}
                if processes.rank < len(at_once):
                    number = at_once[processes.rank]
                    with use_processes(ALONE):
                        made = attack_block(part, subject, number, blocks[number])
                # At the end there may be fewer blocks than processes: the last ones have nothing to bring.
                for number, new in zip(at_once, from_all(made), strict=False):
                    found[number] = new
                    if state:
                        state.put(part.name, number, new)
                    bar.update(_rows(blocks[number]))
            together = joined([found[number] for number in range(len(blocks))])
            seconds[part.name] = float(together.pop(SECONDS).sum())
            measured[part.name] = part.in_order(together)
    return measured, seconds


def _known(part: Part, blocks: list[slice], state: AuditState | None) -> dict[int, Measured]:
    """Blocks that were measured before."""
    if state is None:
        return {}
    looked = {number: state.get(part.name, number, _rows(block)) for number, block in enumerate(blocks)}
    return {number: found for number, found in looked.items() if found is not None}


def _rows(block: slice) -> int:
    return int(block.stop - block.start)


def attack_block(part: Part, subject: Subject, number: int, block: slice) -> Measured:
    """What an attack comes to on one block."""
    # A randomised model draws from torch's global generator; a resumed block must draw the same.
    torch.manual_seed(seeds.derive(subject.seed, part.name, number))
    start = time.perf_counter()
    found = {name: values.detach().cpu() for name, values in part.attack(block).items()}
    found[SECONDS] = torch.tensor([time.perf_counter() - start])
    return found


def from_all(made: Measured) -> list[Measured]:
    """What every process measured, in the order of the ranks."""
    processes = current_processes()
    if not processes.several:
        return [made]
    return [load(content) for content in processes.exchange(save(_plain(made)))]


def from_main(known: dict[int, Measured]) -> dict[int, Measured]:
    """Blocks that the main process knows, for all."""
    processes = current_processes()
    if not processes.several:
        return known
    flat = {f"{number}:{name}": tensor for number, block in known.items() for name, tensor in block.items()}
    sent: dict[int, Measured] = {}
    for key, tensor in load(processes.send(save(_plain(flat)) if processes.main else b"")).items():
        number, _, name = key.partition(":")
        sent.setdefault(int(number), {})[name] = tensor
    return sent


def _plain(tensors: Measured) -> Measured:
    return {name: tensor.contiguous() for name, tensor in tensors.items()}
