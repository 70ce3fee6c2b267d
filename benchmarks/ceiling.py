"""The ceiling of a row: its network, compiled, doing that row's passes and nothing else.

A pass forward and back for the pixels where the row crafts, for the weights where it learns, each with as many images
as in the row. Nothing is mined, no loss is computed beyond a sum, nothing is updated. On a GPU the same pass is also
captured in a CUDA graph, which takes the host out of it; the faster way counts.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Literal, TypeAlias

import torch
from timing import seconds
from torch import Tensor

from holdfast.models import Embedder

Kind: TypeAlias = Literal["craft", "learn"]

ETA = 8


@dataclasses.dataclass(frozen=True)
class Passes:
    """Passes of one kind in a step.

    Args:
        kind: back to the pixels, or to the weights.
        images: in each.
        count: how many.
    """

    kind: Kind
    images: int
    count: int


def passes_of(regime: str, batch: int) -> list[Passes]:
    """What a step of a regime of `steps.REGIMES` runs forward and back; looks, forward alone, are left out."""
    triplets = batch // 2 * 3
    return {
        "standard": [Passes("learn", batch, 1)],
        "hm": [Passes("craft", triplets, ETA), Passes("learn", triplets, 1)],
        "act": [Passes("craft", batch // 2 * 2, ETA), Passes("learn", triplets, 1)],
        "adml": [Passes("craft", batch, 7), Passes("learn", batch, 2)],
        "mdprop": [Passes("craft", batch, 2), Passes("learn", batch, 3)],
    }[regime]


class Ceiling:
    """Seconds of single passes, each measured once.

    Args:
        model: a maker of the network, in training mode on its device.
        images: one is enough.
        repeats: of each measurement.
    """

    def __init__(self, model: Callable[[], Embedder], images: Tensor, repeats: int) -> None:
        self._model, self._images, self._repeats = model, images[:1], repeats
        self.ways: dict[str, dict[str, float]] = {}
        """Seconds by pass (`craft 112`) and way (`compiled`, `captured`)."""

    def of(self, passes: list[Passes]) -> float:
        """Seconds that some passes take at best."""
        return sum(each.count * self.one(each.kind, each.images) for each in passes)

    def one(self, kind: Kind, count: int) -> float:
        """Seconds of one pass."""
        name = f"{kind} {count}"
        if name not in self.ways:
            self.ways[name] = self._measure(kind, count)
        return min(self.ways[name].values())

    def _measure(self, kind: Kind, count: int) -> dict[str, float]:
        images = self._images.expand(count, -1, -1, -1).contiguous(memory_format=torch.channels_last)
        work = pass_of(self._model(), images, kind)
        found = {"compiled": seconds(work, self._repeats)}
        if images.device.type == "cuda":
            try:
                found["captured"] = seconds(captured(work), self._repeats)
            except Exception as error:  # what cannot be captured has the plain way
                print(f"{kind} {count} is not captured: {error}", flush=True)
        return found


def pass_of(model: Embedder, images: Tensor, kind: Kind) -> Callable[[], None]:
    """One compiled pass, in bfloat16 on a GPU, as a call."""
    if kind == "craft":
        model.eval().requires_grad_(False)
        wanted = [images.detach().requires_grad_()]
    else:
        wanted = [parameter for parameter in model.parameters() if parameter.requires_grad]
    x = wanted[0] if kind == "craft" else images
    run: Callable[..., tuple[Tensor, Tensor]] = torch.compile(model.forward)  # the product's graphs alone

    def once() -> None:
        torch._dynamo.maybe_mark_dynamic(x, 0)
        with torch.autocast(x.device.type, torch.bfloat16, enabled=x.device.type == "cuda"):
            found, _ = run(x, return_pooled=True)
        torch.autograd.grad(found.float().sum(), wanted)

    return once


def captured(work: Callable[[], None]) -> Callable[[], None]:
    """The same work as one CUDA graph."""
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            work()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        work()
    return graph.replay
