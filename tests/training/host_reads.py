"""Refuses what would make the host wait for a GPU, on any device."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

aten = torch.ops.aten
READS = {
    *(aten._local_scalar_dense, aten.nonzero, aten.masked_select, aten.equal, aten.is_nonzero, aten.bincount),
    *(aten._unique, aten._unique2, aten.unique_dim, aten.unique_consecutive, aten.unique_dim_consecutive),
}
"""Operations whose result, or whose shape, the host has to know."""

COPIES = {aten.lift_fresh, aten.lift_fresh_copy}
"""What `torch.tensor` makes of numbers of the host, which on a GPU is a copy that waits."""


class NoHostReads(TorchDispatchMode):
    """Raises where a step on a GPU would wait for it."""

    def __torch_dispatch__(
        self, func: Any, types: Sequence[type], args: Sequence[Any] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        packet: Callable[..., Any] = func.overloadpacket
        indices = args[1] if packet in (aten.index, aten.index_put, aten.index_put_, aten._index_put_impl_) else ()
        ragged = any(index is not None and index.dtype in (torch.bool, torch.uint8) for index in indices)
        counted = packet is aten.repeat_interleave and not isinstance(args[1] if len(args) > 1 else 0, int)
        if packet in READS | COPIES or ragged or counted:
            raise AssertionError(f"{func} makes the host wait for the device")
        return func(*args, **(kwargs or {}))
