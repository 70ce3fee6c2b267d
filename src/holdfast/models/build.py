"""The `model:` block of a recipe and the embedder it describes."""

from __future__ import annotations

import dataclasses

from holdfast.models.batchnorm import BatchNormPolicy
from holdfast.models.embedder import Embedder
from holdfast.models.weights import Layout, load_backbone_weights
from holdfast.view import Fit, Interpolation


@dataclasses.dataclass(frozen=True, kw_only=True)
class ModelConfig:
    """What a recipe says about the model; the arguments of `Embedder`, and the weights to start from.

    Args:
        weights: `imagenet` (published weights, fetched by timm or torchvision: those of the backbone's tag, or the
            library's present choice where it has none), a local file, or None for random.
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

    def __post_init__(self) -> None:
        for name in ("dim", "size", "canvas"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise ValueError(f"{name} must be 1 or more, got {value}")

    def build(self, like: Embedder | None = None) -> Embedder:
        """The embedder with its starting weights; random parts come from torch's global generator.

        Args:
            like: a trained model that it will start from, which sees images in its own way: what is left out here of
                size, canvas, fit and interpolation is taken from it, and so are the colours.
        """
        arguments = dataclasses.asdict(self)
        weights = arguments.pop("weights")
        if like is not None and like._hub_mixin_config is not None:  # a wrapped module says nothing of its own
            own = like.preprocessing.settings()
            if self.size not in (None, like.size):
                del own["canvas"]  # of another size; the backbone knows its crop fraction
            arguments |= {key: value for key, value in own.items() if arguments.get(key) is None}
        embedder = Embedder(**arguments)
        if weights not in (None, "none"):
            load_backbone_weights(embedder.backbone, self.backbone, weights, self.size)
        return embedder
