"""Pretrained weights for a backbone: published ones by name, or a local file."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Literal, TypeAlias

import torch
from torch import Tensor, nn

from holdfast.errors import ModelError, reason
from holdfast.files import kind_of
from holdfast.models.backbones import build_backbone

Layout: TypeAlias = Literal["standard", "stride-1x1"]

_PREFIXES = ("module.", "model.", "backbone.")
_CLASSIFIERS = ("fc.", "classifier.", "head.", "heads.", "aux1.", "aux2.", "AuxLogits.")


def require_weights(file: Path, published: str = "") -> None:
    """Refuse a file that is not there.

    Args:
        file: which.
        published: the name of a backbone whose weights may be fetched instead.
    """
    if kind_of(file) != "file":
        fetched = f", or fetch them with --init {published}" if published else ""
        raise ModelError(f"no weights at '{file}'; give a safetensors file or a state dict{fetched}")


def read_state(file: Path) -> dict[str, Tensor]:
    """Tensors of a safetensors file, or of a torch file read with `weights_only=True`; half precision is widened."""
    require_weights(file)
    try:
        if file.suffix == ".safetensors":
            from safetensors.torch import load_file

            state = load_file(file)
        else:
            state = _read_torch(file)
    except Exception as error:  # each reader has its own exception types; all mean the file is not what it should be
        told = f"cannot read weights from {file}: {reason(error)}"
        raise ModelError(f"{told}; use a safetensors file or a state dict") from error
    tensors = {k: v for k, v in state.items() if isinstance(k, str) and isinstance(v, Tensor)}
    return {k: v.float() if v.is_floating_point() else v for k, v in tensors.items()}


def _read_torch(file: Path) -> dict[str, Tensor]:
    """The state dict of a torch file; what else a pickle may hold is never loaded, and nobody is told how to."""
    try:
        state = torch.load(file, map_location="cpu", weights_only=True)
    except Exception as error:
        raise ValueError("it is damaged, or holds Python objects or code, which are never loaded") from error
    if isinstance(state, dict):
        state = state.get("state_dict", state)
    if not isinstance(state, dict):
        raise TypeError(f"a {type(state).__name__} instead of tensors by name")
    return state


def raw_bytes(state: object) -> bytes:
    """Bytes of a value of a state dict, for a digest: of a tensor of any type, or of what else is there, printed."""
    if not isinstance(state, Tensor):
        return repr(state).encode("utf-8", "surrogateescape")
    return state.detach().cpu().reshape(-1).contiguous().view(torch.uint8).numpy().tobytes()


def load_backbone_weights(backbone: nn.Module, name: str, weights: str, size: int | None = None) -> None:
    """Fill a backbone with starting weights.

    Args:
        backbone: as `build_backbone` built it.
        name: the backbone's.
        weights: `imagenet` for those that the library publishes under its name and tag, or a file. A classifier in it
            is left out; everything else must fit and be finite.
        size: the input size that the backbone was built with.
    """
    if weights == "imagenet":
        backbone.load_state_dict(build_backbone(name, size, pretrained=True).module.state_dict())
        return
    wanted = backbone.state_dict()
    found = _strip_prefixes(read_state(Path(weights).expanduser()), wanted)
    missing = [k for k in wanted if k not in found and not k.endswith("num_batches_tracked")]
    extra = [k for k in found if k not in wanted and not k.startswith(_CLASSIFIERS)]
    wrong = [k for k in wanted if k in found and found[k].shape != wanted[k].shape]
    for problem, keys in (("lacks", missing), ("has unknown", extra), ("has other shapes for", wrong)):
        if keys:
            raise ModelError(f"{weights} does not fit {name}: it {problem} {_first(keys)}; is it of another model?")
    refuse_broken({k: found[k] for k in wanted if k in found}, weights)
    backbone.load_state_dict({k: found.get(k, v) for k, v in wanted.items()})


def refuse_broken(state: Mapping[str, Tensor], file: str | Path) -> None:
    """Refuse weights of a file that are no numbers: every embedding would be NaN."""
    broken = [name for name, tensor in state.items() if not bool(torch.isfinite(tensor).all())]
    if broken:
        nan = any(bool(torch.isnan(state[name]).any()) for name in broken)
        kind = "NaN" if nan else "infinite numbers"
        raise ModelError(f"{file} holds {kind} in {_first(broken)}; it is damaged: get or save it again")


def _first(keys: list[str]) -> str:
    return f"'{keys[0]}'" + (f" and {len(keys) - 1} more" if len(keys) > 1 else "")


def use_stride_1x1(backbone: nn.Module) -> None:
    """Move each bottleneck's stride from the 3×3 to the first 1×1 convolution (the ResNet layout of 2015)."""
    moved = 0
    for block in backbone.modules():
        first, second = getattr(block, "conv1", None), getattr(block, "conv2", None)
        if not (hasattr(block, "conv3") and isinstance(first, nn.Conv2d) and isinstance(second, nn.Conv2d)):
            continue
        if first.stride == (1, 1) and second.stride == (2, 2):
            first.stride, second.stride = (2, 2), (1, 1)
            moved += 1
    if not moved:
        raise ModelError("layout 'stride-1x1' needs a ResNet with bottleneck blocks (resnet50, resnet101, resnet152)")


def _strip_prefixes(state: dict[str, Tensor], wanted: dict[str, Tensor]) -> dict[str, Tensor]:
    """Remove wrappers' prefixes (`module.`, `backbone.`) that every tensor of the backbone carries."""
    for prefix in _PREFIXES:
        inner = {k.removeprefix(prefix): v for k, v in state.items() if k.startswith(prefix)}
        if inner and not any(k in wanted for k in state) and any(k in wanted for k in inner):
            return inner
    return state
