"""Compiled passes through an embedder, for the passes that repeat thousands of times.

Tracing a network takes seconds even where torch finds its graph again (compile_cache.py), so as few graphs as possible
serve all: the first dimension is compiled as a variable, an auxiliary BatchNorm set is put in place of the backbone's
own around the call, and a look is a pass of crafting that nobody goes back through. What is left is crafting and
learning, for each size of images. On an NVIDIA GPU crafting, which changes no weight, runs layers together (fused.py).
Evaluation and anything else that calls the model itself stays as it was.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call

from holdfast.models.bank import CLEAN, batchnorm_layers
from holdfast.models.compile_cache import keep_compiled
from holdfast.models.embedder import Embedder
from holdfast.models.fused import fuse

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
        keep_compiled(model.mean.device)
        self._model, self._network = model, _Compiled(model)
        self._crafting: _Compiled | None = None

    def __call__(self, images: Tensor, return_pooled: bool = False, distribution: str = CLEAN) -> Any:
        """As `Embedder.forward`."""
        images = images.contiguous(memory_format=torch.channels_last)  # one layout, one graph
        frozen = not any(p.requires_grad for p in self._model.parameters())
        looking = frozen and not torch.is_grad_enabled()
        network = self._for_crafting() if frozen and together_on(images.device) else self._network
        if looking:
            images = images.detach().requires_grad_()
        torch._dynamo.maybe_mark_dynamic(images, 0)
        torch._dynamo.mark_static(images, [2, 3])
        with torch.set_grad_enabled(looking or torch.is_grad_enabled()):
            if distribution == CLEAN:
                z, pooled = network(images)
            else:
                own = self._model.bank.tensors(distribution)
                tensors = {f"model.backbone.{name}": tensor for name, tensor in own.items()}
                z, pooled = functional_call(network, tensors, (images,))
        if looking:
            z, pooled = z.detach(), pooled.detach()
        return (z, pooled) if return_pooled else z

    def _for_crafting(self) -> _Compiled:
        if any(layer.training for layer in batchnorm_layers(self._model)):  # statistics of the batch at hand
            return self._network
        if self._crafting is None:
            backbone = fuse(self._model.backbone)
            self._crafting = self._network if backbone is None else _Compiled(self._model, backbone)
        return self._crafting


class _Compiled(nn.Module):
    """The embedder, compiled, as a module in which tensors can be put in place of others.

    Args:
        model: the embedder.
        backbone: another form of its backbone, of the same layers.
    """

    def __init__(self, model: Embedder, backbone: nn.Module | None = None) -> None:
        super().__init__()
        self.model = model
        self._backbone = (backbone,)  # not registered: its layers are the model's
        self._call: Callable[..., Any] = torch.compile(self._embed)

    def forward(self, images: Tensor) -> Any:
        return self._call(images)

    def _embed(self, images: Tensor) -> tuple[Tensor, Tensor]:
        features, pooled = self.model.pooled(images, backbone=self._backbone[0])
        return self.model.project(features), pooled


def together_on(device: torch.device) -> bool:
    """Whether layers can run together there: by cuDNN."""
    return device.type == "cuda" and torch.version.cuda is not None and torch.backends.cudnn.enabled
