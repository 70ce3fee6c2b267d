"""BatchNorm banks: beside a backbone's own BatchNorm set, one more for each distribution of inputs.

The backbone is not touched. Its own layers are the clean set; an auxiliary set is a copy of all of them, and a pass
through it is the same network with those tensors in place of its own. So any backbone will do, a model without
auxiliary sets is the same model to the bit, and which set a pass uses is an argument of the call.
"""

from __future__ import annotations

import copy
import dataclasses
from pathlib import Path

import torch
from torch import Generator, Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from holdfast.errors import ModelError, unknown
from holdfast.models.batchnorm import batchnorm_layers

CLEAN = "clean"
"""The backbone's own set: what clean images train, and all that inference and export keep."""

BANK_FILE = "batchnorm.safetensors"
"""Auxiliary sets beside a packaged model; nothing needs it but a look through them."""


@dataclasses.dataclass(frozen=True)
class SetStart:
    """How an auxiliary set starts.

    Args:
        name: of its distribution.
        noise: deviation of normal noise on the copied weights and biases (γ of the MDProp paper).
        fresh: forget the running statistics instead of copying them.
    """

    name: str
    noise: float = 0.0
    fresh: bool = False


class BatchNormBank(nn.Module):
    """The auxiliary BatchNorm sets of a backbone, by distribution.

    Args:
        backbone: whose layers the sets belong to; kept out of this module's own children.
    """

    def __init__(self, backbone: nn.Module) -> None:
        super().__init__()
        self.sets = nn.ModuleDict()
        self._layers = [name for name, layer in backbone.named_modules() if isinstance(layer, _BatchNorm)]

    def __len__(self) -> int:
        return len(self.sets)

    def names(self) -> list[str]:
        """The distributions that have an auxiliary set."""
        return list(self.sets)

    def add(self, backbone: nn.Module, start: SetStart, generator: Generator | None = None) -> None:
        """Give a distribution its set.

        Args:
            backbone: whose present set is copied.
            start: name of the distribution, and how its set differs from the copy.
            generator: draws the noise; torch's global one when left out.
        """
        if not self._layers:
            raise ModelError("this backbone has no BatchNorm layers, so distributions cannot have sets of their own")
        layers = [copy.deepcopy(layer) for layer in batchnorm_layers(backbone)]
        for layer in layers:
            if start.fresh:
                layer.reset_running_stats()
            if start.noise and layer.affine:
                _add_noise(layer, start.noise, generator)
        try:
            self.sets[start.name] = nn.ModuleList(layers)
        except KeyError as error:
            raise ModelError(f"'{start.name}' cannot name a distribution; choose another word") from error

    def tensors(self, distribution: str) -> dict[str, Tensor]:
        """The parameters and buffers of a set under the names they have in the backbone."""
        if distribution not in self.sets:
            raise ModelError(unknown("BatchNorm set", distribution, [CLEAN, *self.sets]))
        layers: nn.ModuleList = self.sets[distribution]  # type: ignore[assignment]
        found: dict[str, Tensor] = {}
        for place, layer in zip(self._layers, layers, strict=True):
            found |= {f"{place}.{name}": tensor for name, tensor in layer.named_parameters()}
            found |= {f"{place}.{name}": tensor for name, tensor in layer.named_buffers()}
        return found

    def save(self, folder: Path) -> None:
        """Write the auxiliary sets beside a packaged model."""
        from safetensors.torch import save_file

        save_file({name: tensor.contiguous() for name, tensor in self.state_dict().items()}, folder / BANK_FILE)

    def load(self, backbone: nn.Module, folder: Path) -> None:
        """Take back what `save` wrote; a folder without auxiliary sets leaves the bank as it is."""
        from safetensors.torch import load_file

        file = folder / BANK_FILE
        if not file.is_file():
            return
        try:
            tensors = load_file(file)
            for name in dict.fromkeys(key.split(".")[1] for key in tensors):
                self.add(backbone, SetStart(name))
            self.load_state_dict(tensors)
        except Exception as error:  # safetensors and torch raise many types; to the user each is a file that is wrong
            raise ModelError(f"{file} does not fit its model: {' '.join(str(error).split())[:200]}") from error


@torch.no_grad()
def _add_noise(layer: _BatchNorm, noise: float, generator: Generator | None) -> None:
    for tensor in (layer.weight, layer.bias):
        drawn = torch.randn(tensor.shape, generator=generator, dtype=torch.float32)
        tensor.add_(drawn.to(tensor), alpha=noise)


class Through(nn.Module):
    """An embedder seen through one BatchNorm set: images to vectors, for whatever takes a model.

    Args:
        model: the embedder.
        distribution: whose set its passes use.
    """

    def __init__(self, model: nn.Module, distribution: str = CLEAN) -> None:
        super().__init__()
        self.model = model
        self.distribution = distribution
        self.training = model.training  # a new module starts in training mode

    def forward(self, images: Tensor) -> Tensor:
        """Embeddings of images in [0, 1]."""
        z: Tensor = self.model(images, distribution=self.distribution)
        return z
