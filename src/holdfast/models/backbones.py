"""Backbones by name: pixels (already normalised) to pooled features.

`resnet50`, `timm:resnet50.tv_in1k` and any other timm name · `torchvision:mobilenet_v2`,
`torchvision:resnet50.IMAGENET1K_V1` · `conv-small`, `conv-tiny`, `mnist-plane` · `package.module:function` or
`file.py:function` for a module of the user's own.
"""

from __future__ import annotations

import dataclasses
import importlib
import importlib.util
import math
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from difflib import get_close_matches
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

import torch
from torch import Tensor, nn

from holdfast.errors import ModelError, described
from holdfast.models.depthwise import ON_ARM, with_fast_depthwise
from holdfast.models.fetching import fetching, timm_address, url_address
from holdfast.models.modes import in_eval_mode
from holdfast.models.names import SMALL, TIMM, TORCHVISION, ensure_torchvision, is_user_code
from holdfast.models.preprocessing import Preprocessing, preprocessing_of, timm_settings, torchvision_weights
from holdfast.models.stem import with_blocked_stem


def entries() -> dict[str, str]:
    """Names that stand for all that can be built, with a line on each."""
    return {
        "conv-small": "three strided convolutions, 32-64-128, for 28-64 px",
        "conv-tiny": "three strided convolutions, 16-32-64: half the time of conv-small",
        "mnist-plane": "the EPS paper's MNIST network; use with dim: 2, normalize: false",
        "resnet18": "timm; so is every other name that `timm.list_models()` knows",
        "resnet50": "timm; layout: stride-1x1 for weights in the layout of 2015",
        "resnet50.tv_in1k": "timm, with the tag of some weights: those that papers of metric learning start from",
        "resnet152": "timm",
        "torchvision:mobilenet_v2": "torchvision; so is every torchvision:NAME (or NAME.WEIGHTS) for classification",
        "package.module:function": "your own, also file.py:function; called without arguments, it returns a module",
    }


@dataclasses.dataclass(frozen=True)
class Backbone:
    """A network without its classifier and what it expects.

    Args:
        module: maps normalised images to pooled features of shape (B, features).
        features: length of a pooled feature vector.
        expects: how images come to it.
    """

    module: nn.Module
    features: int
    expects: Preprocessing


def build_backbone(name: str, size: int | None = None, pretrained: bool = False) -> Backbone:
    """Build a backbone by name.

    Args:
        name: see the module's first lines.
        size: input size; the backbone's own when left out.
        pretrained: fetch the library's published weights (timm and torchvision names only): those of the tag, or the
            library's present choice where the name has none.
    """
    if pretrained and (name in SMALL or is_user_code(name)):
        raise _unpublished(name)
    expects = preprocessing_of(name, size)
    if name in SMALL:
        return _small(name, expects)
    if name.startswith(TORCHVISION):
        return _torchvision(name.removeprefix(TORCHVISION), expects, pretrained)
    if is_user_code(name):
        return wrap_module(call_by_path(name), expects)
    return _timm(name.removeprefix(TIMM), expects, pretrained)


def call_by_path(path: str) -> nn.Module:
    """Call a user's function, `package.module:function` or `file.py:function`, that returns a torch module."""
    where, _, name = path.rpartition(":")
    with suppress(ImportError):
        ensure_torchvision()  # the user's code may import it
    try:
        found: Any = _run_file(where) if where.endswith(".py") else importlib.import_module(where)
    except Exception as error:  # whatever a user's module may raise
        raise ModelError(f"'{where}' cannot be imported ({described(error)}); check its spelling") from error
    for part in name.split("."):
        if not hasattr(found, part):
            near = get_close_matches(part, dir(found), n=1)
            advice = f"did you mean '{near[0]}'?" if near else "name a function in it that returns a torch.nn.Module"
            raise ModelError(f"'{where}' has no '{part}'; {advice}")
        found = getattr(found, part)
    try:
        module = found()
    except Exception as error:  # whatever a user's function may raise
        raise ModelError(f"'{path}', called without arguments, failed ({described(error)})") from error
    if not isinstance(module, nn.Module):
        raise ModelError(f"'{path}' must return a torch.nn.Module, got {type(module).__name__}")
    return module


def _run_file(file: str) -> ModuleType:
    """A user's Python file as a module; it finds the modules beside it, as if Python ran it."""
    beside = str(Path(file).resolve().parent)
    if beside not in sys.path:
        sys.path.append(beside)  # last, so that no file there hides an installed package
    spec = importlib.util.spec_from_file_location(f"holdfast_user_{Path(file).stem}", file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # so that classes defined in the file can find their own module
    spec.loader.exec_module(module)
    return module


def wrap_module(module: nn.Module, expects: Preprocessing) -> Backbone:
    """A user's module as a backbone; its output length is found by trying it."""
    return Backbone(module, _probe(module, expects.view.size), expects)


SIZE = "--size (in recipes model.size)"
"""What changes the size of a model's images."""


def _probe(module: nn.Module, size: int, name: str = "the module") -> int:
    taken = f"(B, 3, {size}, {size})"
    parameter = next(module.parameters(), torch.empty(0))
    try:
        with torch.no_grad(), in_eval_mode(module):
            out = module(torch.zeros(2, 3, size, size, device=parameter.device, dtype=parameter.dtype))
    except Exception as error:  # whatever a user's module may raise
        raise ModelError(f"{name} does not take images {taken} ({described(error)}); give {SIZE}") from error
    if not isinstance(out, torch.Tensor) or out.ndim != 2 or len(out) != 2:
        shape = tuple(out.shape) if isinstance(out, torch.Tensor) else type(out).__name__
        raise ModelError(f"{name} must map images {taken} to vectors (B, D), got {shape}")
    return int(out.shape[1])


def _small(name: str, expects: Preprocessing) -> Backbone:
    if name == "mnist-plane":
        return Backbone(MnistPlaneNet(expects.view.size), 128, expects)
    widths = (16, 32, 64) if name == "conv-tiny" else (32, 64, 128)
    return Backbone(SmallConvNet(widths), widths[-1] * 4, expects)


def _torchvision(name: str, expects: Preprocessing, pretrained: bool) -> Backbone:
    architecture, weights = torchvision_weights(name)
    from torchvision import models

    # Transformers are built for one size; their published weights say which.
    options = {"image_size": expects.view.size} if architecture.startswith("vit_") and not pretrained else {}
    if architecture in SIDE_HEADS:
        options["init_weights"] = False  # takes long, and is warned of
    if pretrained and weights is None:
        raise _unpublished(TORCHVISION + name)
    with fetching(TORCHVISION + name, *url_address(weights.url)) if pretrained else nullcontext():
        module = models.get_model(architecture, weights=weights if pretrained else None, **options)
    if architecture in SIDE_HEADS:
        _let_be_one_path(module, SIDE_HEADS[architecture])
    if architecture.startswith("mnasnet"):  # it asks which version wrote its tensors, and safetensors do not say
        module._load_from_state_dict = partial(nn.Module._load_from_state_dict, module)
    for name_there in ("fc", "classifier", "head", "heads"):
        if hasattr(module, name_there):
            setattr(module, name_there, _before_classes(getattr(module, name_there)))
            return wrap_module(with_fast_depthwise(with_blocked_stem(module)), expects)
    raise ModelError(f"torchvision:{name} has no classifier that holdfast knows how to remove; use a timm backbone")


SIDE_HEADS = {"googlenet": ("aux1", "aux2"), "inception_v3": ("AuxLogits",)}
"""Classifiers of torchvision's networks that learn beside the main one."""


def _let_be_one_path(module: nn.Module, side_heads: Sequence[str]) -> None:
    """Without the side heads, whose outputs it would return beside the features in training.

    The published weights learnt from pixels of another scale, to which the network brings those of its transforms.
    """
    for head in side_heads:
        setattr(module, head, None)
    module.aux_logits, module.transform_input = False, True  # type: ignore[assignment]


def _before_classes(classifier: nn.Module) -> nn.Module:
    """What a classifier does before its first dense layer: ConvNeXt normalises only there, and MaxViT pools."""
    layers = [*classifier] if isinstance(classifier, nn.Sequential) else []
    dense = next((number for number, layer in enumerate(layers) if isinstance(layer, nn.Linear)), 0)
    kept = [layer for layer in layers[:dense] if not isinstance(layer, nn.Dropout)]
    return nn.Sequential(*kept) if kept else nn.Identity()


def _timm(name: str, expects: Preprocessing, pretrained: bool) -> Backbone:
    cfg, size = timm_settings(name), expects.view.size
    told = size if cfg.input_size != (3, size, size) else None
    if pretrained and not cfg.has_weights:
        raise _unpublished(name)
    with fetching(TIMM + name, *timm_address(cfg)) if pretrained else _building(name, told):
        module = _create_timm(name, told, pretrained)
    if told is not None:  # some are built for one size alone and do not say so
        _probe(module, told, name)
    # Some (MobileNetV3, VGG) widen the pooled features before the classifier, and give those.
    features = int(getattr(module, "head_hidden_size", None) or module.num_features)
    return Backbone(with_fast_depthwise(with_blocked_stem(module)), features, expects)


@contextmanager
def _building(name: str, size: int | None) -> Iterator[None]:
    """One line where an architecture cannot be cut into images of a size."""
    try:
        yield
    except Exception as error:  # whatever timm's constructors may raise
        at = f" for {size} px" if size else ""
        raise ModelError(f"{name} cannot be built{at} ({described(error)}); try another {SIZE}") from error


def _create_timm(name: str, size: int | None, pretrained: bool) -> Any:
    """A timm module without its classifier; those of a fixed input size (transformers) are told which."""
    import timm

    if size is not None:
        with suppress(TypeError):  # it takes any size, and no such argument
            return timm.create_model(name, pretrained=pretrained, num_classes=0, img_size=size)
    return timm.create_model(name, pretrained=pretrained, num_classes=0)


def _unpublished(name: str) -> ModelError:
    return ModelError(f"backbone '{name}' has no published weights; set model.weights to none or to a file")


POOL = "global_pool"
"""What timm calls the last pooling of a network."""
SMALLEST = 1e-12
"""What a power is taken of at least: zero has no logarithm."""


class GeM(nn.Module):
    """Generalised-mean pooling: maps (B, F, H, W) to (B, F, 1, 1).

    mean(max(x, 0)^p)^(1/p) + mean(min(x, 0))

    With p = 1, where it starts, that is the average; the larger p, the more the strongest responses count. Training
    learns p.

    Reference: Radenović, Tolias, Chum, "Fine-tuning CNN image retrieval with no human annotation", TPAMI 2019.
    """

    def __init__(self) -> None:
        super().__init__()
        self.power = nn.Parameter(torch.ones(()))

    def forward(self, maps: Tensor) -> Tensor:
        """Pooled maps."""
        return self.pool(maps, self.power)

    @staticmethod
    def pool(maps: Tensor, power: Tensor | float) -> Tensor:
        """Pooled maps, with any power."""
        logs = maps.clamp(min=SMALLEST).log() * power  # in logarithms, which no power carries to zero or infinity
        count = math.log(maps.shape[2] * maps.shape[3])
        positive = ((logs.logsumexp((2, 3), keepdim=True) - count) / power).exp()
        return positive + maps.clamp(max=0).mean((2, 3), keepdim=True)


def pool_by_gem(backbone: nn.Module) -> None:
    """Replace a backbone's last average pooling; what it computes stays the same until the power changes."""
    inner, outer = getattr(backbone, POOL, None), getattr(backbone, "avgpool", None)
    widened = getattr(backbone, "head_hidden_size", None) not in (None, getattr(backbone, "num_features", None))
    if isinstance(getattr(inner, "pool", None), nn.AdaptiveAvgPool2d) and not widened:
        inner.pool = GeM()  # type: ignore[union-attr]
    elif isinstance(outer, nn.AdaptiveAvgPool2d) and outer.output_size in (1, (1, 1)):
        backbone.avgpool = GeM()
    elif type(backbone).__name__ == "MobileNetV2":  # pools the maps of its `features` inside its forward pass
        backbone.features.append(GeM())  # type: ignore[operator, union-attr]
    else:
        raise ModelError("pooling: gem needs a backbone that ends in one average of its maps; leave it out")


def gem_of(backbone: nn.Module) -> GeM | None:
    """The generalised-mean pooling of a backbone, if it has one."""
    return next((module for module in backbone.modules() if isinstance(module, GeM)), None)


class AverageAndMax(nn.Module):
    """A network's own average pooling, and behind its features the largest value of each map.

    Args:
        average: pools maps (B, F, H, W) to (B, F).
    """

    def __init__(self, average: nn.Module) -> None:
        super().__init__()
        self.average = average

    def forward(self, maps: Tensor) -> Tensor:
        """Maps (B, F, H, W) to (B, 2 F)."""
        return torch.cat([self.average(maps), maps.amax((2, 3))], dim=1)


def add_max_pooling(backbone: nn.Module) -> None:
    """Let a backbone return both; its parameters stay as they are."""
    pool = getattr(backbone, POOL, None)
    if not isinstance(getattr(pool, "pool", None), nn.AdaptiveAvgPool2d):
        raise ModelError("this backbone does not end in timm's average pooling; use pooling: average, or resnet50")
    setattr(backbone, POOL, AverageAndMax(pool))  # type: ignore[arg-type]


class StridedConv(nn.Conv2d):
    """A convolution of stride 2 that an ARM processor runs channels first, whatever layout images and weights have.

    Channels last, which suits other layers and devices, takes twice as long there from the loss back to the pixels
    (conv-small, 100 images on one aarch64 core: 133 ms against 69).
    """

    def forward(self, input: Tensor) -> Tensor:
        """Features (B, C, H, W) to features."""
        if input.device.type != "cpu" or not ON_ARM:
            return super().forward(input)
        return nn.functional.conv2d(input.contiguous(), self.weight.contiguous(), self.bias, self.stride, self.padding)


class SmallConvNet(nn.Sequential):
    """Strided convolutions for 28-64 px, fast on a CPU.

    Each stage halves the image with a 3×3 convolution of stride 2, BatchNorm and ReLU; the last map is flattened
    after average pooling to 2×2, which keeps a little of where things are (glyphs differ by layout).

    Args:
        widths: channels of the stages.
    """

    def __init__(self, widths: tuple[int, ...] = (32, 64, 128)) -> None:
        stages: list[nn.Module] = []
        for before, after in zip((3, *widths), widths, strict=False):
            stages += [
                StridedConv(before, after, 3, stride=2, padding=1, bias=False),
                nn.BatchNorm2d(after),
                nn.ReLU(inplace=True),
            ]
        super().__init__(*stages, nn.AdaptiveAvgPool2d(2), nn.Flatten())


class MnistPlaneNet(nn.Sequential):
    """The EPS paper's MNIST network up to its last dense layer, whose two outputs are the embedding.

    Conv 3×3 of 32 and 64 filters, each with ReLU and BatchNorm, 2×2 max-pooling, dense 128. The plane itself comes from
    the embedder's head: `dim: 2, normalize: false`.
    """

    def __init__(self, size: int = 28) -> None:
        side = (size - 4) // 2
        super().__init__(
            nn.Conv2d(3, 32, 3),
            nn.ReLU(inplace=True),
            nn.BatchNorm2d(32),
            nn.Conv2d(32, 64, 3),
            nn.ReLU(inplace=True),
            nn.BatchNorm2d(64),
            nn.MaxPool2d(2),
            nn.Flatten(),
            nn.Linear(64 * side * side, 128),
            nn.ReLU(inplace=True),
        )
