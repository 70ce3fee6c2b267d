"""BatchNorm banks: beside a backbone's own BatchNorm set, one more for each distribution of inputs.

The backbone is not touched. Its own layers are the clean set; an auxiliary set is a copy of all of them, and a pass
through it is the same network with those tensors in place of its own. So any backbone will do, a model without
auxiliary sets is the same model to the bit, and which set a pass uses is an argument of the call.

Several passes through different sets may share one backward, also in `DistributedDataParallel`, and one graph of
`torch.compile`.
"""

from __future__ import annotations

import copy
import dataclasses
import re
from collections.abc import Iterator
from pathlib import Path
from typing import cast

import torch
from torch import Generator, Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from holdfast.errors import ModelError, reason, unknown

CLEAN = "clean"
"""The backbone's own set: what clean images train, and all that inference and export keep."""

BANK_FILE = "batchnorm.safetensors"
"""Auxiliary sets beside a packaged model; nothing needs it but a look through them."""

TAKEN = frozenset({CLEAN, *dir(nn.ModuleDict())})
"""Words that cannot name an auxiliary set."""


def batchnorm_layers(module: nn.Module) -> Iterator[_BatchNorm]:
    """Every BatchNorm layer inside a module."""
    return (m for m in module.modules() if isinstance(m, _BatchNorm))


def check_name(name: str) -> None:
    """Refuse what cannot name an auxiliary set, in files and as a key."""
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}", name) or name in TAKEN:
        shown = name if len(name) < 40 else f"{name[:40]}..."
        raise ModelError(
            f"{shown!r} cannot name a distribution; use letters, digits, - and _, "
            "but not 'clean' or a word that PyTorch modules use themselves (train, half)"
        )


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
        check_name(start.name)
        if start.name in self.sets:
            raise ModelError(f"there is a BatchNorm set '{start.name}' already; give each distribution its own name")
        if not self._layers:
            raise ModelError("this backbone has no BatchNorm layers to give a distribution its own set of; use another")
        layers = copy.deepcopy(nn.ModuleList(batchnorm_layers(backbone)))  # together, so that what is shared stays so
        for layer in batchnorm_layers(layers):
            layer._modules.clear()  # timm keeps the activation inside the layer; it belongs to the backbone
            if start.fresh:
                layer.reset_running_stats()
            if start.noise and layer.affine:
                _add_noise(layer, start.noise, generator)
        self.sets[start.name] = layers

    def tensors(self, distribution: str) -> dict[str, Tensor]:
        """The parameters and buffers of a set under the names they have in the backbone."""
        return {
            f"{place}.{name}": tensor
            for place, layer in self._by_place(distribution).items()
            for name, tensor in _tensors(layer).items()
        }

    def drift(self, backbone: nn.Module) -> dict[str, dict[str, dict[str, float]]]:
        """How far each auxiliary set is from the clean one: distribution → layer → tensor → root mean square gap.

        Tensors are `weight`, `bias`, `running_mean` and `running_var`, where a layer has them.
        """
        return {
            name: {
                place: {
                    which: float((tensor.detach() - own.detach()).double().square().mean().sqrt())
                    for which, tensor in _tensors(layer).items()
                    if (own := getattr(backbone.get_submodule(place), which)).is_floating_point()
                }
                for place, layer in self._by_place(name).items()
            }
            for name in self.sets
        }

    def save(self, folder: Path) -> None:
        """Write the auxiliary sets beside a packaged model; where there are none, leave no such file there."""
        from safetensors.torch import save_file

        file = folder / BANK_FILE
        if not len(self):
            file.unlink(missing_ok=True)
            return
        # Clones: the format refuses tensors that share memory, as those of a layer used twice do.
        save_file({name: tensor.detach().clone().contiguous() for name, tensor in self.state_dict().items()}, file)

    def load(self, backbone: nn.Module, folder: Path) -> None:
        """Take back what `save` wrote; a folder without auxiliary sets leaves the bank as it is.

        Nothing in the file is believed before its names and shapes are those of sets of this backbone.
        """
        from safetensors.torch import load_file

        file = folder / BANK_FILE
        if not file.is_file():
            return
        read = BatchNormBank(backbone)
        try:
            tensors = load_file(file)
            shapes = [{name: t.shape for name, t in _tensors(la).items()} for la in batchnorm_layers(backbone)]
            names = list(dict.fromkeys(key.split(".")[1] for key in tensors if key.count(".") == 3))
            expected = {
                f"sets.{name}.{position}.{which}": shape
                for name in names
                for position, layer in enumerate(shapes)
                for which, shape in layer.items()
            }
            if {key: tensor.shape for key, tensor in tensors.items()} != expected:
                raise ValueError("its layers are not those of the backbone")
            for name in names:
                read.add(backbone, SetStart(name))
            read.load_state_dict(tensors)
        except Exception as error:  # safetensors and torch raise many types; to the user each is a file that is wrong
            raise ModelError(f"{file} does not fit its model: {reason(error)}") from error
        self.sets = read.sets

    def _by_place(self, distribution: str) -> dict[str, _BatchNorm]:
        """The layers of a set by their names in the backbone."""
        if distribution not in self.sets:
            raise ModelError(unknown("BatchNorm set", distribution, [CLEAN, *self.sets]))
        layers = cast(nn.ModuleList, self.sets[distribution])
        return dict(zip(self._layers, layers, strict=True))


def _tensors(layer: _BatchNorm) -> dict[str, Tensor]:
    """A layer's own parameters and buffers; fewer where it is not affine or keeps no statistics."""
    return {**dict(layer.named_parameters(recurse=False)), **dict(layer.named_buffers(recurse=False))}


@torch.no_grad()
def _add_noise(layer: _BatchNorm, noise: float, generator: Generator | None) -> None:
    for tensor in (layer.weight, layer.bias):
        drawn = torch.randn(tensor.shape, generator=generator, dtype=torch.float32)
        tensor.add_(drawn.to(tensor), alpha=noise)
