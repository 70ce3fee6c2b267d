"""Backbones by name: pixels (already normalised) to pooled features.

`resnet50` and any other timm name · `torchvision:mobilenet_v2` · `conv-small`, `conv-tiny`, `mnist-plane` ·
`package.module:function` for a module of the user's own.
"""

from __future__ import annotations

import dataclasses
import importlib
import inspect
from typing import Any

import torch
from torch import nn

from holdfast.errors import ModelError, described, unknown
from holdfast.models.small import MnistPlaneNet, SmallConvNet
from holdfast.models.stem import with_blocked_stem
from holdfast.models.torchvision_shim import ensure_torchvision

IMAGENET_MEAN, IMAGENET_STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
NEUTRAL_MEAN, NEUTRAL_STD = (0.0, 0.0, 0.0), (1.0, 1.0, 1.0)
HALF_MEAN, HALF_STD = (0.5, 0.5, 0.5), (0.5, 0.5, 0.5)

SUMMARIES = {
    "conv-small": "three strided convolutions, 32-64-128, for 28-64 px",
    "conv-tiny": "three strided convolutions, 16-32-64: half the time of conv-small",
    "mnist-plane": "the EPS paper's MNIST network; use with dim: 2, normalize: false",
    "resnet18": "timm; so is every other name that `timm.list_models()` knows",
    "resnet50": "timm; layout: stride-1x1 for weights in the layout of 2015",
    "resnet152": "timm",
    "torchvision:mobilenet_v2": "torchvision; so is every torchvision:NAME that classifies images",
    "package.module:function": "your own: a function without arguments that returns a module, images to vectors",
}
SMALL = ("conv-small", "conv-tiny", "mnist-plane")


@dataclasses.dataclass(frozen=True)
class Backbone:
    """A network without its classifier and what it expects.

    Args:
        module: maps normalised images to pooled features of shape (B, features).
        features: length of a pooled feature vector.
        size: height and width of the images it takes.
        mean: per-channel pixel mean that the embedder subtracts.
        std: per-channel pixel deviation that the embedder divides by.
    """

    module: nn.Module
    features: int
    size: int
    mean: tuple[float, ...]
    std: tuple[float, ...]


def build_backbone(name: str, size: int | None = None, pretrained: bool = False) -> Backbone:
    """Build a backbone by name.

    Args:
        name: see the module's first lines.
        size: input size; the backbone's own when left out.
        pretrained: fetch the library's published weights (timm and torchvision names only).
    """
    if name in SMALL:
        return _small(name, size, pretrained)
    if name.startswith("torchvision:"):
        return _torchvision(name.removeprefix("torchvision:"), size, pretrained)
    if ":" in name:
        if pretrained:
            raise ModelError(f"backbone '{name}' has no published weights; set model.weights to none or to a file")
        return wrap_module(call_by_path(name), size or 224)
    return _timm(name, size, pretrained)


def is_user_code(name: str) -> bool:
    """Whether building this backbone would run code outside holdfast, timm and torchvision."""
    return ":" in name and not name.startswith("torchvision:")


def may_build(name: str, trust_code: bool | str) -> bool:
    """Whether a backbone that a file names may be built: only code that was trusted is ever run.

    Args:
        name: as the file gives it.
        trust_code: True for any code, or the one name that the user gave.
    """
    return not is_user_code(name) or trust_code is True or trust_code == name


def call_by_path(path: str) -> nn.Module:
    """Call `package.module:function` without arguments; it must return a module."""
    module_name, _, function_name = path.partition(":")
    try:
        function: Any = importlib.import_module(module_name)
        for part in function_name.split("."):
            function = getattr(function, part)
    except ModuleNotFoundError as error:
        raise ModelError(f"backbone '{path}': {error}; is it installed and spelt package.module:function?") from error
    except AttributeError as error:
        raise ModelError(f"backbone '{path}': {error}") from error
    except Exception as error:  # whatever a user's module may raise
        raise ModelError(f"backbone '{path}' cannot be imported ({described(error)})") from error
    return checked_module(function, path)


def checked_module(function: Any, path: str) -> nn.Module:
    """Call a user's factory and make sure a torch module came back."""
    if not _callable_bare(function):
        raise ModelError(f"'{path}' must be a function that can be called without arguments")
    try:
        module = function()
    except Exception as error:  # whatever a user's code may raise
        raise ModelError(f"'{path}' failed ({described(error)})") from error
    if not isinstance(module, nn.Module):
        raise ModelError(f"'{path}' must return a torch.nn.Module, got {type(module).__name__}")
    return module


def _callable_bare(function: Any) -> bool:
    """Whether something can be called without arguments, as far as its signature tells."""
    if not callable(function):
        return False
    try:
        inspect.signature(function).bind()
    except TypeError:
        return False
    except ValueError:  # builtins without a signature
        return True
    return True


def wrap_module(module: nn.Module, size: int) -> Backbone:
    """A user's module as a backbone: it sees plain [0, 1] images; its output length is found by trying it."""
    features = _probe(module, size)
    return Backbone(module, features, size, NEUTRAL_MEAN, NEUTRAL_STD)


def _probe(module: nn.Module, size: int) -> int:
    modes = {m: m.training for m in module.modules()}
    module.eval()
    parameter = next(module.parameters(), torch.empty(0))
    try:
        with torch.no_grad():
            out = module(torch.zeros(2, 3, size, size, device=parameter.device, dtype=parameter.dtype))
    except Exception as error:  # whatever a user's module may raise
        raise ModelError(
            f"the module does not take images of shape (B, 3, {size}, {size}) ({described(error)}); "
            "give --size (model.size in a recipe)"
        ) from error
    finally:
        for m, mode in modes.items():
            m.training = mode
    if not isinstance(out, torch.Tensor) or out.ndim != 2 or len(out) != 2:
        shape = tuple(out.shape) if isinstance(out, torch.Tensor) else type(out).__name__
        raise ModelError(f"the module must map images (B, 3, {size}, {size}) to vectors (B, D), got {shape}")
    return int(out.shape[1])


def _small(name: str, size: int | None, pretrained: bool) -> Backbone:
    if pretrained:
        raise ModelError(f"backbone '{name}' has no published weights; set model.weights to none")
    if name == "mnist-plane":
        size = size or 28
        return Backbone(MnistPlaneNet(size), 128, size, NEUTRAL_MEAN, NEUTRAL_STD)
    widths = (16, 32, 64) if name == "conv-tiny" else (32, 64, 128)
    return Backbone(SmallConvNet(widths), widths[-1] * 4, size or 32, HALF_MEAN, HALF_STD)


def _torchvision(name: str, size: int | None, pretrained: bool) -> Backbone:
    ensure_torchvision()
    from torchvision import models

    if name not in models.list_models():
        raise ModelError(unknown("torchvision model", name, models.list_models()))
    try:
        module = models.get_model(name, weights="DEFAULT" if pretrained else None)
    except OSError as error:
        raise ModelError(_no_download(name, error)) from error
    size = size or 224
    for classifier in ("fc", "classifier", "head", "heads"):
        if hasattr(module, classifier):
            setattr(module, classifier, nn.Identity())
            module = with_blocked_stem(module)
            return Backbone(module, _probe(module, size), size, IMAGENET_MEAN, IMAGENET_STD)
    raise ModelError(f"torchvision:{name} has no classifier that holdfast knows how to remove; use a timm backbone")


def _timm(name: str, size: int | None, pretrained: bool) -> Backbone:
    ensure_torchvision()
    import timm

    if not timm.is_model(name):
        raise ModelError(unknown("backbone", name, [*timm.list_models(), *SMALL]))
    module = _create_timm(name, size, pretrained)
    settings: dict[str, Any] = module.pretrained_cfg
    mean = tuple(settings.get("mean", IMAGENET_MEAN))
    std = tuple(settings.get("std", IMAGENET_STD))
    # Some (MobileNetV3, VGG) widen the pooled features before the classifier, and give those.
    features = int(getattr(module, "head_hidden_size", None) or module.num_features)
    size = size or int(settings["input_size"][-1])
    return Backbone(with_blocked_stem(module), features, size, mean, std)


def _create_timm(name: str, size: int | None, pretrained: bool) -> Any:
    """A timm module without its classifier; those of a fixed input size (transformers) are told which."""
    import timm

    try:
        if size is not None:
            try:
                return timm.create_model(name, pretrained=pretrained, num_classes=0, img_size=size)
            except TypeError:  # it takes any size, and no such argument
                pass
        return timm.create_model(name, pretrained=pretrained, num_classes=0)
    except Exception as error:  # offline, or a size that the architecture cannot be cut into
        if pretrained:
            raise ModelError(_no_download(name, error)) from error
        raise ModelError(f"{name} cannot be built for {size} px ({described(error)}); try another --size") from error


def _no_download(name: str, error: Exception) -> str:
    reason = " ".join(str(error).partition("\n")[0].split())
    return (
        f"cannot fetch the published weights of {name} ({reason}); connect to the internet, "
        "or give a local file: model.weights in a recipe"
    )
