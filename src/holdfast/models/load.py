"""Embedders by description: the `model:` block of a recipe, or whatever a person can name on the command line."""

from __future__ import annotations

import dataclasses
import os
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Literal

import torch
from torch import nn

from holdfast.errors import ModelError, described, reason
from holdfast.files import kind_of
from holdfast.models.activation import Activation
from holdfast.models.backbones import call_by_path
from holdfast.models.embedder import WEIGHTS_FILE, BatchNormPolicy, Embedder, Pooling
from holdfast.models.fetching import hub_reachable
from holdfast.models.modes import in_eval_mode
from holdfast.models.names import TIMM, TORCHVISION, did_you_mean, published_start
from holdfast.models.onnx_file import OnnxModule
from holdfast.models.shipped import shipped_folder, shipped_names
from holdfast.models.weight_types import other_type
from holdfast.models.weights import Layout, load_backbone_weights
from holdfast.view import Fit, Interpolation


@dataclasses.dataclass(frozen=True, kw_only=True)
class ModelConfig:
    """What a recipe says about the model; the arguments of `Embedder`, and the weights to start from.

    Args:
        backbone: its name; `NAME@FILE` gives the weights with it.
        weights: `imagenet` (published weights, fetched by timm or torchvision: those of the backbone's tag, or the
            library's present choice where it has none), a local file, or None for random.
        head: `whitened` fits the head to the training classes before the first step, from the backbone's features as
            they are, with or without a `dim`; None leaves it random. A run with a `start` takes that of its start.
    """

    backbone: str = "resnet50"
    dim: int | None = 128
    weights: str | None = None
    size: int | None = None
    canvas: int | None = None
    layout: Layout = "standard"
    normalize: bool = True
    batchnorm: BatchNormPolicy = "train"
    fit: Fit | None = None
    interpolation: Interpolation | None = None
    pooling: Pooling | None = None
    activation: Activation | None = None
    head: Literal["whitened"] | None = None

    def __post_init__(self) -> None:
        for name in ("dim", "size", "canvas"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise ValueError(f"{name} must be 1 or more, got {value}")
        self._take_file()

    def _take_file(self) -> None:
        """Read `backbone: NAME@FILE` as a backbone and its weights, unless those are another file."""
        name, at, file = self.backbone.partition("@")
        if at and self.weights not in (None, "imagenet", file):
            raise ValueError(f"model.backbone names the weights '{file}' and model.weights '{self.weights}'; give one")
        object.__setattr__(self, "backbone", name.removeprefix(TIMM))
        if at:
            object.__setattr__(self, "weights", file)

    def build(self, like: Embedder | None = None) -> Embedder:
        """The embedder with its starting weights; random parts come from torch's global generator.

        Args:
            like: a trained model that it will start from, which sees images in its own way: what is left out here of
                size, canvas, fit, interpolation and activation is taken from it, and so are the colours.
        """
        arguments = dataclasses.asdict(self)
        weights, pooling, head = (arguments.pop(name) for name in ("weights", "pooling", "head"))
        if like is not None and like._hub_mixin_config is not None:  # a wrapped module says nothing of its own
            own = {**like.preprocessing.settings(), "activation": activation_of(like)}
            if self.size not in (None, like.size):
                del own["canvas"]  # of another size; the backbone knows its crop fraction
            arguments |= {key: value for key, value in own.items() if arguments.get(key) is None}
        embedder = Embedder(**arguments)
        if weights not in (None, "none"):
            load_backbone_weights(embedder.backbone, self.backbone, weights, self.size)
        if pooling:
            embedder.use_gem()
        if head and self.dim is None:
            embedder.set_head(torch.eye(embedder.feature_dim))
        return embedder


def activation_of(model: Embedder) -> Activation | None:
    """The smooth function in the place of a model's ReLU, as far as it says; a wrapped module does not."""
    settings: Any = model._hub_mixin_config or {}
    found: Activation | None = settings.get("activation")
    return found


def spellings() -> list[str]:
    """What can be written for MODEL on the command line."""
    published = ["timm:NAME", "torchvision:NAME (with @FILE: weights from a file)"]
    own = [f"{name} (comes with holdfast)" for name in shipped_names()]
    return ["a run folder", "a packaged model", "a hub id", *own, *published, "file.py:function", "onnx:FILE"]


def load_model(
    spec: str | Path, size: int | None = None, trust_code: bool | str = False, sets: bool = False
) -> Embedder:
    """The model behind a command-line MODEL, in eval mode.

    Args:
        spec: a run folder, a packaged model, a hub id (`owner/name`), one of `shipped_names()`, `timm:NAME`,
            `torchvision:NAME`, either with `@FILE` for weights from a file in place of fetched ones,
            `file.py:function` or `onnx:FILE` (embeds, but gives no gradients).
        size: input size for models that do not know their own; another than a model's own is refused, but for
            `timm:` and `torchvision:`, which keep their crop fraction.
        trust_code: allow a package whose backbone is a user's own module to import it; the name of such a backbone
            (of a recipe's, say) allows that one alone.
        sets: also read the auxiliary BatchNorm sets that a run or package folder may hold, to look through them.
    """
    spec = os.fspath(spec)
    if spec.rpartition(":")[0].endswith(".py"):
        return as_embedder(Embedder.wrap(call_by_path(spec), size or 224)).eval()
    if start := published_start(spec):
        return ModelConfig(backbone=start[0], weights=start[1], dim=None, size=size).build().eval()
    folder = shipped_folder(spec) or Path(spec)
    kind = kind_of(folder)
    if spec.startswith("onnx:"):
        graph = OnnxModule(Path(spec.removeprefix("onnx:")).expanduser())
        side = graph.size or size or 224
        model = Embedder.wrap(graph, side, graph.canvas, graph.unit_length, graph.fit, graph.interpolation).eval()
    elif kind == "folder":
        package = folder / "model" if (folder / "model").is_dir() else folder
        model = _load_folder(package, trust_code)
        if sets:
            model.bank.load(model.backbone, package)
    elif kind or spec.count("/") != 1 or spec.startswith((".", "/", "~")):
        raise _no_model(spec, bool(kind))
    else:
        model = _from_hub(spec, trust_code)
    refuse_size(spec, model.size, size)
    return model


def _no_model(spec: str, there: bool) -> ModelError:
    """One line on what to write in place of a MODEL that is none."""
    if there and spec.endswith(".py"):
        return ModelError(f"'{spec}' is code; name the function that returns the model: {spec}:function")
    if there and spec.endswith(".onnx"):
        return ModelError(f"'{spec}' is a graph; write onnx:{spec}")
    if there:
        line = f"'{spec}' holds weights at most, which do not tell their architecture"
        return ModelError(f"{line}; write torchvision:NAME@FILE or timm:NAME@FILE, where FILE is this one")
    named = None if "/" in spec else did_you_mean(spec)
    advice = named or f"MODEL is {', '.join(spellings())}"
    return ModelError(f"no model at '{spec}'; {advice}")


def _from_hub(spec: str, trust_code: bool | str) -> Embedder:
    """A package of the Hugging Face Hub; without a network, one that was fetched before."""
    owner, _, name = spec.partition("/")
    if f"{owner}:" in (TIMM, TORCHVISION):
        raise ModelError(f"'{spec}' is no holdfast package; for a published backbone write {owner}:{name}")
    near = get_close_matches(spec, shipped_names(), n=1, cutoff=0.8)
    online = hub_reachable()
    try:
        return Embedder.from_pretrained(spec, trust_code=trust_code, local_files_only=not online)
    except ModelError:
        raise
    except Exception as error:  # the hub client raises dozens of types: missing, private, not a model
        if near:
            raise ModelError(f"no model at '{spec}'; did you mean '{near[0]}', which comes with holdfast?") from error
        if online:
            raise ModelError(f"'{spec}' is neither a folder here nor a model on the hub ({reason(error)})") from error
        raise ModelError(
            f"there is no folder '{spec}' here, and no connection to the hub to look there; check the spelling or the "
            f"network, or run `hf download {spec} --local-dir DIR` on another computer and give DIR"
        ) from error


def as_embedder(model: str | Path | nn.Module, size: int | None = None) -> Embedder:
    """An embedder as it is, another module wrapped as one, or the model behind a name.

    Args:
        model: an embedder, a module from images in [0, 1] to vectors, or what `load_model` takes.
        size: input size for models that do not know their own; 224 when left out.
    """
    if isinstance(model, (str, Path)):
        return load_model(model, size)
    if isinstance(model, Embedder):
        refuse_size("the embedder", model.size, size)
    else:
        model = Embedder.wrap(model, size or 224)
    _refuse_other_types(model)
    return model


def _refuse_other_types(model: Embedder) -> None:
    """Refuse a model that does not take float32, which images come in, because its weights are of another type."""
    weights = [weight for weight in model.parameters() if weight.is_floating_point()]
    if all(weight.dtype == torch.float32 for weight in weights):
        return
    pixels = torch.promote_types(torch.float32, model.mean.dtype)  # as its normalisation leaves them
    images = torch.zeros(2, 3, model.size, model.size, dtype=pixels, device=weights[0].device)
    try:
        with torch.no_grad(), in_eval_mode(model):
            model.backbone(images)
    except RuntimeError as error:
        raise other_type(error, model, images) or error from None


def refuse_size(what: str, own: int | None, asked: int | None) -> None:
    """Refuse another input size than the one a model was made for."""
    if own is not None and asked is not None and asked != own:
        raise ModelError(f"{what} takes images of {own} px, not {asked}; leave out --size")


def _load_folder(folder: Path, trust_code: bool | str) -> Embedder:
    if not (folder / "config.json").is_file() or not (folder / WEIGHTS_FILE).is_file():
        raise ModelError(f"{folder} holds no model (config.json and {WEIGHTS_FILE}); did the run finish an epoch?")
    try:
        return Embedder.from_pretrained(str(folder), trust_code=trust_code)
    except (ValueError, TypeError, AttributeError, RecursionError) as error:  # JSON of another kind, or too deep
        raise ModelError(f"{folder / 'config.json'} is damaged ({described(error)})") from error
