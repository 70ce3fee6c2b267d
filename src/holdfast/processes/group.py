"""The processes of a run, their shards of a batch, and everything they tell each other."""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, TypeAlias, TypeVar

import torch
import torch.distributed as dist
from torch import Tensor

from holdfast.errors import HoldfastError, TrainingError

T = TypeVar("T")

BUCKET = 25_000_000
"""Numbers that are added up in one go: 100 MB in float32."""

GO_ON = "see what it said, mend that, and run the same command again to go on from the last checkpoint"
LOST = f"another process of this run stopped or cannot be reached; {GO_ON}"

Blocks: TypeAlias = tuple[tuple[int, int], ...]
"""What a pass consists of: (images, images per group) of each block; triplets and then single images are
`((3 * t, 3), (n, 1))`. Each process holds its shard of the first block, then of the second, and so on."""


def shard(count: int, group: int, rank: int, world: int) -> slice:
    """The rows that a process has of `count`: consecutive, as equal as can be, never through the middle of a group."""
    groups = count // group
    return slice(groups * rank // world * group, groups * (rank + 1) // world * group)


def held_rows(blocks: Blocks, rank: int, world: int) -> Tensor:
    """The rows that a process has of all blocks, counted through all blocks."""
    starts = itertools.accumulate((count for count, _ in blocks), initial=0)
    parts = [(start, shard(count, group, rank, world)) for start, (count, group) in zip(starts, blocks, strict=False)]
    return torch.cat([torch.arange(start + part.start, start + part.stop) for start, part in parts])


def block_order(blocks: Blocks, world: int) -> Tensor:
    """Where each row of the blocks is once the shards of all processes lie behind one another."""
    return torch.cat([held_rows(blocks, rank, world) for rank in range(world)]).argsort()


class Processes:
    """This process among those that work on the same thing; all must call the same methods in the same order.

    Alone, every method gives back what it was given.

    Args:
        rank: which one this is; 0 is the main one, which writes and talks.
        world: how many there are.
        host: the group for what lies in the computer's memory.
        fast: the group for what lies on the device.
    """

    def __init__(self, rank: int = 0, world: int = 1, host: Any = None, fast: Any = None) -> None:
        self.rank, self.world = rank, world
        self._host, self._fast = host, fast
        self.gathered = self.reduced = 0
        """Bytes of the tensors that were put together and added up, as one process holds the result."""

    @property
    def main(self) -> bool:
        """Whether this is the one that writes and talks."""
        return self.rank == 0

    @property
    def several(self) -> bool:
        """Whether there are others."""
        return self.world > 1

    def shard(self, count: int, group: int = 1) -> slice:
        """Which of `count` rows are this process's; consecutive groups of rows are not cut."""
        return shard(count, group, self.rank, self.world)

    def gather(self, mine: Tensor, blocks: Blocks) -> Tensor:
        """The rows of all processes, block by block, in the order of the ranks.

        What follows is computed by every process alike, so each takes back the gradient of its own rows alone, and
        gradients of weights are then to be added up over the processes.

        Args:
            mine: this process's rows of each block.
            blocks: what the rows of all are.
        """
        if not self.several:
            return mine
        counts = [len(held_rows(blocks, rank, self.world)) for rank in range(self.world)]
        everyone: Tensor = _Gather.apply(mine, self, counts)  # type: ignore[no-untyped-call]
        return everyone if len(blocks) == 1 else everyone[block_order(blocks, self.world).to(everyone.device)]

    def collect(self, mine: Tensor, counts: list[int]) -> Tensor:
        """Rows of all processes behind one another, without gradients; `counts` has how many each brings."""
        most = max(counts)
        padded = mine.new_zeros((most, *mine.shape[1:]))
        padded[: len(mine)] = mine
        found = [torch.empty_like(padded) for _ in counts]
        with _together():
            dist.all_gather(found, padded, self._for(mine))
        self.gathered += sum(counts) * math.prod(mine.shape[1:]) * mine.element_size()
        return torch.cat([part[:count] for part, count in zip(found, counts, strict=True)])

    def add(self, values: Tensor) -> Tensor:
        """The sum over all processes, in place and without gradients."""
        if self.several:
            with _together():
                dist.all_reduce(values, group=self._for(values))
            self.reduced += values.numel() * values.element_size()
        return values

    def add_all(self, tensors: Iterable[Tensor], scale: float = 1.0) -> None:
        """Replace each tensor by its sum over all processes times a factor, many in one go."""
        if not self.several:
            return
        for bucket in _buckets(tensors):
            flat = torch.cat([tensor.flatten() for tensor in bucket])
            self.add(flat).mul_(scale)
            parts = torch.split(flat, [tensor.numel() for tensor in bucket])
            for tensor, part in zip(bucket, parts, strict=True):
                tensor.copy_(part.view_as(tensor))

    def all_of(self, flag: Tensor) -> Tensor:
        """Whether a boolean scalar is true in every process; no process waits for its device."""
        if not self.several:
            return flag
        return self.add(flag.to(torch.int32)) == self.world

    def any_of(self, flag: bool) -> bool:
        """Whether something is so in any process."""
        return self.total(int(flag)) > 0

    def total(self, count: int) -> int:
        """A number summed over all processes."""
        return int(self.add(torch.tensor(count))) if self.several else count

    def agree(self, digest: str, what: str) -> None:
        """Stop unless every process has found the same."""
        if self.several and self.send(digest.encode()) != digest.encode():
            raise TrainingError(f"process {self.rank} sees other {what} than the main one; give all the same files")

    def send(self, content: bytes) -> bytes:
        """What the main process has, to all."""
        if not self.several:
            return content
        size = torch.tensor(len(content))
        with _together():
            dist.broadcast(size, 0, self._host)
            body = torch.frombuffer(bytearray(content or b"\0"), dtype=torch.uint8) if self.main else None
            body = torch.empty(max(int(size), 1), dtype=torch.uint8) if body is None else body
            dist.broadcast(body, 0, self._host)
        return body[: int(size)].numpy().tobytes()

    def exchange(self, content: bytes) -> list[bytes]:
        """What every process has, in the order of the ranks."""
        if not self.several:
            return [content]
        counts = self.collect(torch.tensor([len(content)]), [1] * self.world).tolist()
        buffer = bytearray(content or b"\0")  # an empty one is refused
        mine = torch.frombuffer(buffer, dtype=torch.uint8)[: len(content)]
        everyone = self.collect(mine, counts).numpy().tobytes()
        ends = list(itertools.accumulate(counts))
        return [everyone[end - count : end] for end, count in zip(ends, counts, strict=True)]

    def tell(self, work: Callable[[], T]) -> T:
        """What something comes to that only the main process does, as JSON carries it; its failure is everybody's."""
        if not self.several:
            return work()
        if not self.main:
            heard = json.loads(self.send(b""))
            if "problem" in heard:
                raise TrainingError(f"the main process stopped: {heard['problem']}")
            told: T = heard["result"]
            return told
        try:
            with use_processes(ALONE):
                result = work()
        except HoldfastError as error:
            self.send(json.dumps({"problem": str(error)}).encode())
            raise
        self.send(json.dumps({"result": result}).encode())
        return result

    def _for(self, tensor: Tensor) -> Any:
        return self._host if tensor.device.type == "cpu" else self._fast


ALONE = Processes()

_current: ContextVar[Processes] = ContextVar("processes", default=ALONE)


def current_processes() -> Processes:
    """Those that share the present work: the ones that were `joined`, or this one alone."""
    return _current.get()


@contextmanager
def use_processes(processes: Processes) -> Iterator[None]:
    """Let these processes share the work of the block; `ALONE` for what one of them does by itself."""
    before = _current.set(processes)
    try:
        yield
    finally:
        _current.reset(before)


class _Gather(torch.autograd.Function):
    """Rows of all processes; back goes to each the gradient of its own."""

    @staticmethod
    def forward(ctx: Any, mine: Tensor, processes: Processes, counts: list[int]) -> Tensor:
        start = sum(counts[: processes.rank])
        ctx.rows = slice(start, start + counts[processes.rank])
        return processes.collect(mine.contiguous(), counts)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None, None]:
        return gradients[0][ctx.rows], None, None


@contextmanager
def _together() -> Iterator[None]:
    """Turn what a broken connection raises into one line."""
    try:
        yield
    except RuntimeError as error:
        raise TrainingError(LOST) from error


def _buckets(tensors: Iterable[Tensor]) -> Iterator[list[Tensor]]:
    """Tensors of one type together, up to about a size."""
    held: dict[tuple[torch.dtype, int], list[Tensor]] = {}
    sizes: dict[torch.dtype, int] = {}
    for tensor in tensors:
        size = sizes[tensor.dtype] = sizes.get(tensor.dtype, 0) + tensor.numel()
        held.setdefault((tensor.dtype, size // BUCKET), []).append(tensor)
    yield from held.values()
