"""What a backbone expects of an image: its view, and the mean and deviation of pixels.

A published model brings its own: timm's `pretrained_cfg` and the transforms of torchvision's weights say it.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Any, get_args

from holdfast.errors import ModelError, shown, unknown
from holdfast.models.names import SMALL, TIMM, TORCHVISION, ensure_torchvision, is_user_code, unknown_backbone
from holdfast.view import Fit, Interpolation, View

IMAGENET_MEAN, IMAGENET_STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
NEUTRAL_MEAN, NEUTRAL_STD = (0.0, 0.0, 0.0), (1.0, 1.0, 1.0)
HALF_MEAN, HALF_STD = (0.5, 0.5, 0.5), (0.5, 0.5, 0.5)

USUAL_SIZE = 224
LARGEST = {"dim": 65_536, "size": 4_096, "canvas": 8_192}
"""Settings of a model: more than any has; a larger number in a file would only fill the memory."""
LEAST = {"mean": 0.0, "std": 1e-3}
"""Of a channel of pixels in [0, 1]; a deviation of nothing would divide by it."""
SMALL_IMAGES = 96
"""Images below this size are used whole, without a border to crop."""

_FITS: dict[str, Fit] = {"center": "crop", "squash": "squash", "border": "pad"}
"""timm's words, of which any other means the first; its bars have the mean's colour, ours are black."""


@dataclasses.dataclass(frozen=True)
class Preprocessing:
    """How a file becomes a network's input.

    Args:
        view: resizing and cropping.
        mean: per-channel pixel mean that is subtracted.
        std: per-channel pixel deviation that is divided by.
    """

    view: View
    mean: tuple[float, ...] = NEUTRAL_MEAN
    std: tuple[float, ...] = NEUTRAL_STD

    def changed(
        self,
        canvas: int | None = None,
        fit: Fit | None = None,
        interpolation: Interpolation | None = None,
        mean: Sequence[float] | None = None,
        std: Sequence[float] | None = None,
    ) -> Preprocessing:
        """With whatever is given in place of its own."""
        view = self.view
        if canvas and canvas < view.size:
            raise ModelError(f"model.canvas ({canvas}) must not be smaller than model.size ({view.size})")
        for name, values in (("mean", mean), ("std", std)):
            if values is not None and not colours(values, name):
                raise ModelError(f"{name} must be three numbers from {LEAST[name]} to 1, got {shown(values)}")
        view = View(view.size, canvas or view.canvas, fit or view.fit, interpolation or view.interpolation)
        return Preprocessing(view, tuple(mean or self.mean), tuple(std or self.std))

    def settings(self) -> dict[str, Any]:
        """The arguments of `Embedder` that ask for just this."""
        return {**dataclasses.asdict(self.view), "mean": [*self.mean], "std": [*self.std]}


def colours(values: Any, name: str) -> bool:
    """Whether something can be the `mean` or the `std` of three channels."""
    return (
        isinstance(values, (list, tuple))
        and len(values) == 3
        and all(type(value) in (int, float) and LEAST[name] <= value <= 1 for value in values)
    )


def preprocessing_of(backbone: str, size: int | None = None) -> Preprocessing:
    """What a backbone expects, without building it.

    Args:
        backbone: its name, as `build_backbone` takes it.
        size: of the images that it is to take; its own when left out. The fraction of the image that is cropped stays
            the published one, except that small images are used whole.
    """
    if backbone in SMALL:
        size = size or SMALL[backbone]
        view = View(size, default_canvas(size))
        return Preprocessing(view) if backbone == "mnist-plane" else Preprocessing(view, HALF_MEAN, HALF_STD)
    if backbone.startswith(TORCHVISION):
        return _of_torchvision(backbone.removeprefix(TORCHVISION), size)
    if is_user_code(backbone):
        return Preprocessing(View(size or USUAL_SIZE, default_canvas(size or USUAL_SIZE)))
    return _of_timm(backbone.removeprefix(TIMM), size)


def settings_of_before(settings: dict[str, Any]) -> dict[str, Any]:
    """Settings of a package that was saved when every image was squashed, with what was then left unsaid.

    Args:
        settings: the arguments of `Embedder` in its config.json, without `fit`.
    """
    backbone = str(settings.get("backbone", ""))
    torchvision = backbone.startswith(TORCHVISION)
    size = settings.get("size") or (USUAL_SIZE if torchvision else preprocessing_of(backbone).view.size)
    past: dict[str, Any] = {"fit": "squash", "interpolation": "bilinear"}
    if torchvision:
        past |= {"mean": IMAGENET_MEAN, "std": IMAGENET_STD}
    return {**settings, **past, "size": size, "canvas": settings.get("canvas") or default_canvas(size)}


def default_canvas(size: int) -> int:
    """256 for 224, the same for small images: small ones are used whole."""
    return size if size < SMALL_IMAGES else round(size * 256 / 224)


def timm_settings(name: str) -> Any:
    """timm's `pretrained_cfg` of a name, with or without a tag."""
    ensure_torchvision()
    import timm
    from timm.models import PretrainedCfg, get_pretrained_cfg

    if not timm.is_model(name):
        raise unknown_backbone(name)
    try:
        return get_pretrained_cfg(name) or PretrainedCfg()
    except RuntimeError as error:  # the architecture is there, the tag is not
        architecture = name.partition(".")[0]
        raise ModelError(unknown("weights", name, timm.list_pretrained(f"{architecture}.*"))) from error


def torchvision_weights(name: str) -> tuple[str, Any]:
    """Architecture and published weights (None where there are none) of `NAME` or `NAME.WEIGHTS`."""
    ensure_torchvision()
    from torchvision import models

    architecture, dot, tag = name.partition(".")
    if architecture not in models.list_models():
        raise unknown_backbone(TORCHVISION + architecture)
    published = models.get_model_weights(architecture)
    if dot and tag not in published.__members__:
        raise ModelError(unknown(f"weights of torchvision:{architecture}", tag, published.__members__))
    return architecture, published[tag] if dot else getattr(published, "DEFAULT", None)


def _of_timm(name: str, size: int | None) -> Preprocessing:
    cfg = timm_settings(name)
    own = int(cfg.input_size[-1])
    view = _view(own, cfg.crop_pct, size, _FITS.get(cfg.crop_mode, "crop"), cfg.interpolation)
    return Preprocessing(view, tuple(cfg.mean), tuple(cfg.std))


def _of_torchvision(name: str, size: int | None) -> Preprocessing:
    _, weights = torchvision_weights(name)
    transforms: Any = weights.transforms() if weights is not None else None
    if not hasattr(transforms, "crop_size"):  # it detects or segments
        view = View(size or USUAL_SIZE, default_canvas(size or USUAL_SIZE))
        return Preprocessing(view, IMAGENET_MEAN, IMAGENET_STD)
    own, resized = int(transforms.crop_size[0]), int(transforms.resize_size[0])
    view = _view(own, Fraction(own, resized), size, "crop", transforms.interpolation.value)
    return Preprocessing(view, tuple(transforms.mean), tuple(transforms.std))


def _view(own: int, crop: float | Fraction, size: int | None, fit: Fit, interpolation: str) -> View:
    """The view of a published model, at its own size or another.

    Args:
        own: size of its input.
        crop: fraction of the canvas that it sees, along a side; one above 1 would ask for a border, and counts as 1.
        size: that is asked for.
        fit: what happens to an image that is no square.
        interpolation: in its library's words.
    """
    if interpolation not in get_args(Interpolation):
        raise ModelError(f"images of this model are resized by '{interpolation}', which holdfast does not know")
    side = size or own
    whole = side != own and side < SMALL_IMAGES
    canvas = side if whole else max(side, math.floor(side / crop))  # as timm's transforms count it
    return View(side, canvas, fit, interpolation)  # type: ignore[arg-type]  # checked above
