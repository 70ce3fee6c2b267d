"""Compiled passes through an embedder, for the passes that repeat thousands of times.

One callable serves every batch size, because the first dimension is compiled as a variable, and one graph every
auxiliary BatchNorm set, because their tensors are inputs. Mode and what needs a gradient choose among the graphs:
looking, crafting and learning, each through the clean set or another. They are kept for the next process
(compile_cache.py). Evaluation and anything else that calls the model itself stays as it was.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from holdfast.models.bank import CLEAN
from holdfast.models.compile_cache import keep_compiled
from holdfast.models.embedder import Embedder

GRAPHS = 64
"""Graphs one callable may have before torch would silently fall back to running it uncompiled."""


class CompiledPasses:
    """Calls an embedder through `torch.compile`.

    Args:
        model: the embedder; weights, modes and sets are read at every call.
    """

    def __init__(self, model: Embedder) -> None:
        limit = "recompile_limit" if hasattr(torch._dynamo.config, "recompile_limit") else "cache_size_limit"
        setattr(torch._dynamo.config, limit, max(GRAPHS, getattr(torch._dynamo.config, limit)))
        self._model = model
        self._call: Callable[..., Any] = torch.compile(model.through)
        keep_compiled(model.mean.device)

    def __call__(self, images: Tensor, return_pooled: bool = False, distribution: str = CLEAN) -> Any:
        """As `Embedder.forward`."""
        images = images.contiguous(memory_format=torch.channels_last)  # one layout, one graph
        torch._dynamo.maybe_mark_dynamic(images, 0)
        return self._call(images, return_pooled, self._model.set_tensors(distribution))
