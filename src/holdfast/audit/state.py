"""Attacking block by block, alone or with the blocks sharded over processes; what is measured outlives a kill."""

from __future__ import annotations

import dataclasses
import shutil
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load, save
from torch import Tensor

from holdfast import seeds
from holdfast.attacks.forward import counting
from holdfast.audit.base import Part
from holdfast.audit.cut import Cut
from holdfast.audit.files import alike
from holdfast.audit.plan import Passes, Progress
from holdfast.audit.subject import Subject
from holdfast.errors import HoldfastError
from holdfast.files import write_atomic, write_json
from holdfast.processes import ALONE, current_processes, use_processes
from holdfast.run_files import parse_json

Measured = dict[str, Tensor]

COST = "cost"
"""Seconds and passes of a block, kept with it, so that a resumed audit still knows what its attacks took."""
CHOICE = "choice.json"


class AuditState:
    """Measurements block by block, one file each, so that a killed audit goes on where it stopped.

    Args:
        folder: where they are kept.
        identity: everything the figures depend on; measurements of another audit are thrown away.
    """

    def __init__(self, folder: Path, identity: dict[str, Any]) -> None:
        self._folder = folder
        self.resumed = False
        file = folder / "identity.json"
        before = _read_json(file)
        if isinstance(before, dict) and alike(before, identity, before.keys() | identity.keys()):
            self.resumed = True
            return
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        write_json(file, identity)

    def get(self, part: str, block: int, rows: int) -> Measured | None:
        """A block's measurements, or None if it has not been attacked (or its file is damaged).

        Args:
            part: the attack.
            block: its number.
            rows: images of the block; measurements of more or fewer are damaged.
        """
        file = self._file(part, block)
        try:
            found = load(file.read_bytes()) if file.is_file() else {}
        except (SafetensorError, ValueError, KeyError):  # the latter two: headers with types or sizes that do not exist
            return None
        cost = found.get(COST, torch.empty(0))
        sound = cost.shape == (1, 3) and bool(cost.isfinite().all())
        whole = sound and all(t.shape[:1] == (rows,) for k, t in found.items() if k != COST)
        return found if whole else None

    def put(self, part: str, block: int, measured: Measured) -> None:
        """Keep a block's measurements."""
        write_atomic(self._file(part, block), save({name: values.contiguous() for name, values in measured.items()}))

    def keep_choice(self, scope: str, images: int) -> None:
        """Remember how many images were chosen to be attacked, for `kept_choice`."""
        write_json(self._folder / CHOICE, {"scope": scope, "images": images})

    def join(self, file: Path, measured: dict[str, Measured]) -> Path:
        """Write everything that was measured into one file."""
        write_atomic(file, _packed(measured))
        return file

    def forget(self) -> None:
        """Remove the blocks; the audit is finished."""
        shutil.rmtree(self._folder, ignore_errors=True)

    def _file(self, part: str, block: int) -> Path:
        return self._folder / f"{part.replace('/', '_')}-{block:06d}.safetensors"


def kept_choice(folder: Path, scope: str) -> int | None:
    """How many images a killed audit had chosen, so that it goes on with the same ones.

    Args:
        folder: of its state.
        scope: what the choice was made for; another audit's is not taken.
    """
    found = _read_json(folder / CHOICE)
    kept = isinstance(found, dict) and found.get("scope") == scope and type(found.get("images")) is int
    return found["images"] if kept else None


def read_measurements(file: Path) -> dict[str, Measured]:
    """What `AuditState.join` wrote: part → name → one row per attacked image."""
    try:
        return _unpacked(file.read_bytes())
    except (SafetensorError, ValueError, KeyError) as error:
        raise HoldfastError(f"{file} holds no measurements of an audit ({error}); run the audit again") from error


def _packed(measured: Mapping[str, Measured]) -> bytes:
    """Measurements of several parts, or blocks, as the bytes of one file."""
    return save({f"{part}:{name}": t.contiguous() for part, arrays in measured.items() for name, t in arrays.items()})


def _unpacked(content: bytes) -> dict[str, Measured]:
    measured: dict[str, Measured] = {}
    for key, tensor in load(content).items():
        part, _, name = key.rpartition(":")
        measured.setdefault(part, {})[name] = tensor
    return measured


def _read_json(file: Path) -> Any:
    try:
        return parse_json(file.read_text("utf-8"))
    except (OSError, ValueError):
        return None


@dataclasses.dataclass(frozen=True)
class Queue:
    """The attacks of an audit block by block, and what is known of them already.

    Args:
        parts: the attacks.
        cuts: the blocks of each.
        known: part → number of a block → its measurements.
        each: passes that each part takes at most for one image.
    """

    parts: list[Part]
    cuts: dict[str, Cut]
    known: dict[str, dict[int, Measured]]
    each: dict[str, Passes]

    @classmethod
    def of(cls, parts: list[Part], subject: Subject, each: Passes, state: AuditState | None) -> Queue:
        """The attacks on a subject; the main process alone has a state, and all of them get what it knows.

        Args:
            parts: the attacks.
            subject: what is attacked.
            each: passes for one image of those parts that do not say so themselves.
            state: where blocks are kept.
        """
        cuts = {part.name: part.cut or Cut.every(subject.block, len(subject.rows)) for part in parts}
        known = {}
        for part in parts:
            sent = current_processes().send(_packed(_known(part, cuts[part.name].blocks, state)))
            known[part.name] = {int(number): block for number, block in _unpacked(sent).items()}
        return cls(parts, cuts, known, {part.name: part.passes or each for part in parts})

    @property
    def total(self) -> Passes:
        """Of all blocks, known or not."""
        return self._sum({name: cut.rows_in_turn(1) for name, cut in self.cuts.items()})

    def left(self) -> Passes:
        """What one process still has to do, where several take a block each at a time."""
        world = current_processes().world
        return self._sum({name: cut.rows_in_turn(world, self.known[name]) for name, cut in self.cuts.items()})

    def _sum(self, rows: dict[str, int]) -> Passes:
        return sum((self.each[name] * count for name, count in rows.items()), Passes())


@dataclasses.dataclass(frozen=True)
class Cost:
    """What an attack took: seconds, and passes that were made."""

    seconds: float
    passes: Passes


def attack_all(
    queue: Queue,
    subject: Subject,
    state: AuditState | None,
    progress: Progress,
    words: str = "attack {turn} of {count}, {name}",
) -> tuple[dict[str, Measured], dict[str, Cost]]:
    """Every block of every part, from the state where it is known; measurements and costs by part.

    Several processes attack a block each at a time, and all of them get all measurements.

    Args:
        queue: the attacks.
        subject: what is attacked.
        state: where blocks are kept; the main process alone has one.
        progress: counts the passes.
        words: what it says is running.
    """
    processes = current_processes()
    measured: dict[str, Measured] = {}
    costs: dict[str, Cost] = {}
    for turn, part in enumerate(queue.parts, 1):
        cut, found, each = queue.cuts[part.name], dict(queue.known[part.name]), queue.each[part.name]
        blocks, what = cut.blocks, words.format(turn=turn, count=len(queue.parts), name=part.name)
        progress.skip(each * sum(_rows(blocks[number]) for number in found))
        unknown = [number for number in range(len(blocks)) if number not in found]
        for first in range(0, len(unknown), processes.world):
            at_once = unknown[first : first + processes.world]
            made: dict[str, Measured] = {}
            with progress.doing(what, each * sum(_rows(blocks[number]) for number in at_once)):
                if processes.rank < len(at_once):  # at the end there may be fewer blocks than processes
                    number = at_once[processes.rank]
                    earlier = _earlier(measured, part, cut, blocks[number])
                    with use_processes(ALONE):
                        made[str(number)] = attack_block(part, subject, number, blocks[number], earlier)
            for content in processes.exchange(_packed(made)):
                for key, new in _unpacked(content).items():
                    number = int(key)
                    found[number] = new
                    if state:
                        state.put(part.name, number, new)
        together = {name: torch.cat([found[n][name] for n in range(len(blocks))]) for name in found[0]}
        seconds, forward, back = together.pop(COST).sum(0).tolist()
        costs[part.name] = Cost(seconds, Passes(int(forward), int(back)))
        back = slice(None) if cut.order is None else cut.order.argsort()
        measured[part.name] = {name: values[back] for name, values in together.items()}
    return measured, costs


def _known(part: Part, blocks: list[slice], state: AuditState | None) -> dict[str, Measured]:
    """Blocks that were measured before, by number."""
    if state is None:
        return {}
    looked = {str(number): state.get(part.name, number, _rows(block)) for number, block in enumerate(blocks)}
    return {number: found for number, found in looked.items() if found is not None}


def _earlier(measured: Mapping[str, Measured], part: Part, cut: Cut, block: slice) -> Measured | None:
    """What the part that another comes after measured of a block."""
    if part.after is None:
        return None
    order = slice(None) if cut.order is None else cut.order
    return {name: values[order][block] for name, values in measured[part.after].items()}


def _rows(block: slice) -> int:
    return int(block.stop - block.start)


def attack_block(part: Part, subject: Subject, number: int, block: slice, earlier: Measured | None = None) -> Measured:
    """What an attack comes to on one block.

    Args:
        part: the attack.
        subject: what is attacked.
        number: of the block.
        block: where it begins and ends.
        earlier: what the part that it comes after measured, of these images.
    """
    # A randomised model draws from torch's global generator; a resumed block must draw the same.
    torch.manual_seed(seeds.derive(subject.seed, part.name, number))
    start, made = time.perf_counter(), [0, 0]

    def count(images: int, back: bool) -> None:
        made[back] += images

    given = (block,) if earlier is None else (block, earlier)
    with counting(count):
        found = {name: values.detach().cpu() for name, values in part.attack(*given).items()}
    found[COST] = torch.tensor([[time.perf_counter() - start, *made]], dtype=torch.float64)
    return found
