"""The embedder: images in [0, 1] to unit vectors."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal, TypeAlias, TypeVar, get_args, overload

import torch
from huggingface_hub import PyTorchModelHubMixin, hf_hub_download
from huggingface_hub.errors import HFValidationError
from torch import Tensor, nn
from torch.func import functional_call
from torch.nn import functional as F

from holdfast.errors import DataError, ModelError, reason, shown
from holdfast.models.activation import Activation, use_activation
from holdfast.models.backbones import Backbone, add_max_pooling, build_backbone, pool_by_gem, wrap_module
from holdfast.models.bank import BANK_FILE, CLEAN, BatchNormBank, batchnorm_layers
from holdfast.models.card import LIBRARY, TAGS, TASK, TEMPLATE
from holdfast.models.names import is_user_code
from holdfast.models.preprocessing import LARGEST, Preprocessing, colours, default_canvas, settings_of_before
from holdfast.models.shipped import shipped_folder
from holdfast.models.weights import Layout, refuse_broken, use_stride_1x1
from holdfast.view import Fit, Interpolation, View

WEIGHTS_FILE = "model.safetensors"
HUB = ("revision", "cache_dir", "force_download", "local_files_only", "token")
"""Arguments of `from_pretrained` that are the hub's, not the model's."""

BatchNormPolicy: TypeAlias = Literal["train", "freeze-statistics", "freeze"]
"""`train`: batch statistics, running ones updated. `freeze-statistics`: running statistics are used and kept, the
affine weights train. `freeze`: neither changes."""

Pooling: TypeAlias = Literal["gem"]

_WORDS = {
    "pooling": (None, *get_args(Pooling)),
    "activation": (None, *get_args(Activation)),
    "layout": get_args(Layout),
    "batchnorm": get_args(BatchNormPolicy),
    "fit": get_args(Fit),
    "interpolation": get_args(Interpolation),
}

E = TypeVar("E", bound="Embedder")


class Embedder(
    nn.Module, PyTorchModelHubMixin, library_name=LIBRARY, pipeline_tag=TASK, tags=[*TAGS], model_card_template=TEMPLATE
):
    """Pixels to unit vectors: `Embedder("resnet50", dim=128)(images)`.

    Owns pixel normalisation and input size, so that images, and every perturbation of them, live in [0, 1].
    `save_pretrained`, `from_pretrained(folder or hub id)` and `push_to_hub` come from `huggingface_hub`.

    What is left out of size, canvas, fit, interpolation, mean and std is the backbone's own: timm's `pretrained_cfg`
    (of the tag in `resnet50.tv_in1k`, or of timm's present choice) and the transforms of torchvision's weights say it.
    A package states all of them, so that it never depends on the libraries' versions.

    Args:
        backbone: a timm name, `torchvision:NAME`, `conv-small`, `conv-tiny`, `mnist-plane`, `package.module:function`.
        dim: length of the embedding; None leaves the pooled features as they are.
        size: input height and width. At another size than its own a backbone keeps its crop fraction.
        canvas: size to which images are first resized; the input is its centre (in training, a random) crop.
        fit: `crop` keeps an image's shape and brings its shorter side to the canvas, `pad` its longer side, with black
            bars; `squash` distorts it to canvas × canvas.
        interpolation: of that resizing.
        mean: of each channel, subtracted from pixels in [0, 1].
        std: of each channel, by which they are then divided.
        layout: `stride-1x1` for ResNet weights in the layout of 2015.
        normalize: scale to unit length. Only the EPS paper's MNIST experiment turns it off.
        batchnorm: what training may change in BatchNorm layers.
        pooling: `gem` for generalised-mean pooling in place of the backbone's average.
        activation: `softplus` or `silu` in place of ReLU.
    """

    def __init__(
        self,
        backbone: str = "resnet50",
        dim: int | None = 128,
        size: int | None = None,
        canvas: int | None = None,
        layout: Layout = "standard",
        normalize: bool = True,
        batchnorm: BatchNormPolicy = "train",
        fit: Fit | None = None,
        interpolation: Interpolation | None = None,
        mean: Sequence[float] | None = None,
        std: Sequence[float] | None = None,
        pooling: Pooling | None = None,
        activation: Activation | None = None,
    ) -> None:
        super().__init__()
        built = build_backbone(backbone, size)
        if activation:
            use_activation(built.module, activation)
        expects = built.expects.changed(canvas, fit, interpolation, mean, std)
        self._assemble(built, expects, dim, normalize, batchnorm)
        self._hub_mixin_config = {**(self._hub_mixin_config or {}), **expects.settings()}  # type: ignore[dict-item]
        if layout == "stride-1x1":
            use_stride_1x1(self.backbone)
        if pooling:
            self.use_gem()

    @classmethod
    def wrap(
        cls: type[E],
        module: nn.Module,
        size: int = 224,
        canvas: int | None = None,
        normalize: bool = True,
        fit: Fit = "crop",
        interpolation: Interpolation = "bilinear",
    ) -> E:
        """Any module from images in [0, 1] to vectors, as an embedder without a head."""
        self = cls.__new__(cls)
        nn.Module.__init__(self)
        self._hub_mixin_config = None
        expects = Preprocessing(View(size, default_canvas(size))).changed(canvas, fit, interpolation)
        self._assemble(wrap_module(module, expects), expects, None, normalize, "train")
        return self

    def _assemble(
        self, backbone: Backbone, expects: Preprocessing, dim: int | None, normalize: bool, batchnorm: BatchNormPolicy
    ) -> None:
        self.backbone = backbone.module
        self.bank = BatchNormBank(self.backbone)
        self.feature_dim = backbone.features
        self.dim = dim or backbone.features
        self.preprocessing = expects
        self.view = expects.view
        self.size, self.canvas = self.view.size, self.view.canvas
        self.normalize = normalize
        self.batchnorm: BatchNormPolicy = batchnorm
        self.head: nn.Module = nn.Linear(backbone.features, dim) if dim else nn.Identity()
        # Settings, which config.json has: among the tensors they would only let a package disagree with itself.
        self.register_buffer("mean", torch.tensor(expects.mean).view(1, -1, 1, 1), persistent=False)
        self.register_buffer("std", torch.tensor(expects.std).view(1, -1, 1, 1), persistent=False)

    preprocessing: Preprocessing
    """The view, and the colours as they were given."""
    view: View
    """How a photograph becomes an input; `size` and `canvas` are its."""
    mean: Tensor
    std: Tensor

    @property
    def differentiable(self) -> bool:
        """Whether gradients flow back to the pixels; not so for a wrapped ONNX graph."""
        return bool(getattr(self.backbone, "differentiable", True))

    def use_gem(self) -> None:
        """Pool by generalised means, with the power at which they are averages."""
        pool_by_gem(self.backbone)
        self._hub_mixin_config = {**(self._hub_mixin_config or {}), "pooling": "gem"}  # type: ignore[dict-item]

    def set_head(self, weight: Tensor) -> None:
        """Let the head be a product with `weight`, (dim, features), without a bias to begin with."""
        dim, features = weight.shape
        head = nn.Linear(features, dim)
        with torch.no_grad():
            head.weight.copy_(weight)
            head.bias.zero_()
        self.head, self.dim = head.to(self.mean.device), dim
        self._hub_mixin_config = {**(self._hub_mixin_config or {}), "dim": dim}  # type: ignore[dict-item]

    max_pooled: bool = False
    """Whether `return_pooled` gives the sum of average- and max-pooled features."""

    def add_max_pooling(self) -> None:
        """For losses that learn from max-pooled features too. Embeddings stay as they are, and so does a package."""
        add_max_pooling(self.backbone)
        self.max_pooled = True

    def features(self, images: Tensor, distribution: str = CLEAN) -> Tensor:
        """Pooled backbone features of images in [0, 1], through the BatchNorm set of a distribution."""
        return self.pooled(images, distribution)[0]

    def pooled(
        self, images: Tensor, distribution: str = CLEAN, backbone: nn.Module | None = None
    ) -> tuple[Tensor, Tensor]:
        """The features that embeddings come from, and those that losses learn from.

        Args:
            images: in [0, 1].
            distribution: whose BatchNorm set they go through.
            backbone: another form of the backbone for the clean set.
        """
        if not images.is_floating_point():
            raise DataError(f"a model takes images as floats in [0, 1], got {images.dtype}; divide by 255 first")
        pixels = (images - self.mean) / self.std
        if distribution == CLEAN:
            pooled: Tensor = (backbone or self.backbone)(pixels)
        else:
            pooled = functional_call(self.backbone, self.bank.tensors(distribution), (pixels,))
        if not self.max_pooled:
            return pooled, pooled
        average, largest = pooled.chunk(2, dim=1)
        return average, average + largest

    def project(self, pooled: Tensor) -> Tensor:
        """Pooled features to embeddings; the scaling to unit length runs in float32 or better."""
        z = self.head(pooled)
        if not self.normalize:
            return z  # type: ignore[no-any-return]
        # Autocast lowers no operation of it. A switch inside the graph would keep torch from caching what it compiles.
        return F.normalize(z.float() if z.dtype in (torch.bfloat16, torch.float16) else z, dim=-1)

    @overload
    def forward(self, images: Tensor, return_pooled: Literal[False] = False, distribution: str = CLEAN) -> Tensor: ...

    @overload
    def forward(
        self, images: Tensor, return_pooled: Literal[True], distribution: str = CLEAN
    ) -> tuple[Tensor, Tensor]: ...

    def forward(
        self, images: Tensor, return_pooled: bool = False, distribution: str = CLEAN
    ) -> Tensor | tuple[Tensor, Tensor]:
        """Embeddings of images in [0, 1] of shape (B, 3, size, size).

        Args:
            images: the pixels.
            return_pooled: return the pooled features beside the embeddings.
            distribution: whose BatchNorm set the images go through; `bank` holds the auxiliary ones.
        """
        features, pooled = self.pooled(images, distribution)
        z = self.project(features)
        return (z, pooled) if return_pooled else z

    def train(self: E, mode: bool = True) -> E:
        """Training mode under the BatchNorm policy."""
        super().train(mode)
        if mode and self.batchnorm != "train":
            for layer in batchnorm_layers(self):
                layer.eval()
                if self.batchnorm == "freeze":
                    layer.requires_grad_(False)
        return self

    def _save_pretrained(self, save_directory: Path) -> None:
        """Called by `save_pretrained`, which then writes config.json from the constructor's arguments."""
        if self._hub_mixin_config is None:
            raise ModelError("a wrapped module has no name to rebuild it from; use Embedder('package.module:function')")
        for name in (WEIGHTS_FILE, BANK_FILE, "README.md"):
            if (save_directory / name).is_symlink():  # a stranger's folder may lead elsewhere
                (save_directory / name).unlink()
        bank, self.bank = self.bank, BatchNormBank(self.backbone)
        try:
            super()._save_pretrained(save_directory)  # the clean set only
        finally:
            self.bank = bank
        bank.save(save_directory)

    @classmethod
    def from_pretrained(cls: type[E], pretrained_model_name_or_path: str | Path, **arguments: Any) -> E:
        """A packaged model: of a folder, a run or the hub, or one that comes with holdfast (`holdfast/pocket-robust`).

        Args:
            pretrained_model_name_or_path: which.
            arguments: the hub's (`revision`, `token`, `local_files_only`), and `trust_code` for a package whose
                backbone is its author's own code.
        """
        place = shipped_folder(str(pretrained_model_name_or_path)) or pretrained_model_name_or_path
        own = Path(place) / "model"
        place = own if own.is_dir() else place
        try:
            model: E = super().from_pretrained(place, **arguments)
        except HFValidationError as error:
            raise ModelError(f"no model at '{place}'; give a run folder, a packaged model or a hub id") from error
        return model

    @classmethod
    def _from_pretrained(
        cls: type[E], *, model_id: str, map_location: str = "cpu", trust_code: bool | str = False, **arguments: Any
    ) -> E:
        """Called by `from_pretrained`; a file never decides to run code, the caller does with `trust_code`."""
        hub = {name: arguments.pop(name) for name in HUB if name in arguments}
        backbone = str(arguments.get("backbone", ""))
        if is_user_code(backbone) and trust_code not in (True, backbone):  # any code, or the one that the user named
            unnamed = f", which the recipe does not name; replace it, or trust it by --set model.backbone={backbone}"
            untrusted = "; load it with trust_code=True if you trust it"
            raise ModelError(f"{model_id} would run the code '{backbone}'{unnamed if trust_code else untrusted}")
        check_settings(arguments, model_id)
        if "fit" not in arguments:
            arguments = settings_of_before(arguments)
        folder = Path(model_id)
        file = folder / WEIGHTS_FILE
        if not folder.is_dir():
            file = Path(str(hf_hub_download(model_id, WEIGHTS_FILE, **hub)))
        model = cls(**arguments)
        load_tensors(model, file, map_location)
        return model.eval()


class Through(nn.Module):
    """An embedder seen through one BatchNorm set: images to vectors, for whatever takes a model.

    Args:
        model: the embedder.
        distribution: whose set its passes use.
    """

    def __init__(self, model: Embedder, distribution: str = CLEAN) -> None:
        super().__init__()
        self.model = model
        self.distribution = distribution
        self.size, self.dim, self.mean = model.size, model.dim, model.mean
        self.training = model.training  # a new module starts in training mode

    def forward(self, images: Tensor) -> Tensor:
        """Embeddings of images in [0, 1]."""
        z: Tensor = self.model(images, distribution=self.distribution)
        return z


class PlainFeatures(nn.Module):
    """An embedder without its head: images to its backbone's pooled features, at the length its embeddings have.

    Args:
        model: the embedder.
    """

    def __init__(self, model: Embedder) -> None:
        super().__init__()
        self.model = model
        self.size, self.dim, self.mean = model.size, model.feature_dim, model.mean
        self.training = model.training

    def forward(self, images: Tensor) -> Tensor:
        """Pooled features of images in [0, 1]."""
        pooled = self.model.features(images)
        return F.normalize(pooled, dim=-1) if self.model.normalize else pooled


def load_tensors(model: nn.Module, file: Path, device: str = "cpu") -> None:
    """Fill a module from a safetensors file; every tensor must be there and fit."""
    from safetensors.torch import load_model

    if not file.is_file():
        raise ModelError(f"no {WEIGHTS_FILE} in {file.parent}; is it a packaged model or a finished run?")
    try:
        load_model(model, file, strict=True, device=device)
    except Exception as error:  # safetensors and torch raise many types; each means a file that does not fit
        raise ModelError(f"{file} does not fit its config.json: {reason(error)}") from error
    refuse_broken(model.state_dict(), file)


def check_settings(settings: dict[str, Any], where: str) -> None:
    """Refuse settings of a packaged model that no model could have been saved with.

    Args:
        settings: the arguments of `Embedder`, as a config.json gives them.
        where: the package, for the message.
    """
    for key, value in settings.items():
        if key in LARGEST:
            good = value is None or (type(value) is int and 1 <= value <= LARGEST[key])
        elif key in _WORDS:
            good = value in _WORDS[key]
        elif key in ("mean", "std"):
            good = colours(value, key)
        else:
            good = isinstance(value, bool) if key == "normalize" else isinstance(value, str) and len(value) <= 200
        if not good:
            raise ModelError(f"config.json of {where} is damaged: {key} cannot be {shown(value)}")
