"""Gradients that a model cannot mask: its values as they are, its gradient passed by whatever would hide or bend it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from typing import Any, Literal, TypeAlias, get_args

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.overrides import TorchFunctionMode

from holdfast.attacks.straight_through import RULES, joined, with_twins

Cut: TypeAlias = Literal["before", "inside", "behind"]
"""`before`: what happens to the image before the network. `inside`: rounding, comparing, saturating, detaching and
custom backward passes anywhere. `behind`: what happens to the vector behind the last layer with weights."""
CUTS: tuple[Cut, ...] = get_args(Cut)

LIKE = 0.5
"""Fraction of a tensor's variance that the image must explain for the tensor to be the image, changed."""
SMALLEST = 8
"""Height and width from which a tensor may be an image."""
ENTRANCES = {"conv1d", "conv2d", "conv3d", "conv_transpose2d", "linear", "matmul", "__matmul__", "einsum", "unfold"}
ENTRANCES |= {"reshape", "view", "flatten"}
"""Operations by which images enter a network."""
LAYERS = {"linear", "conv1d", "conv2d", "conv3d", "matmul", "mm", "bmm", "addmm", "baddbmm", "einsum", "bilinear"}
LAYERS |= {"batch_norm", "layer_norm", "group_norm", "instance_norm", "mean", "sum", "amax", "flatten"}
LAYERS |= {"adaptive_avg_pool2d", "adaptive_max_pool2d", "avg_pool2d", "__matmul__", "__rmatmul__"}
"""Operations that a network is made of; what is done to vectors behind the last of them is no part of it."""


class Unmasked(nn.Module):
    """A model with the values it has, and a gradient that it cannot mask.

    Backward pass differentiable approximation (BPDA) for any module, also for code that is no layer: every call of
    torch inside the model is looked at. An input that is the image, changed (by JPEG in numpy, rounding, noise,
    resizing), gets the gradient of the image, scaled as the change scales; operations without a useful derivative get
    that of a smooth neighbour; vectors behind the last layer pass their gradient on to it. `no_grad`, `detach`, hooks
    and custom backward passes do nothing. Where none of this is met the gradient is the model's own, up to rounding.
    What leaves torch and comes back is passed by only where it is the image.

    Args:
        model: maps images in [0, 1] to vectors.
        cuts: what is passed by; everything when left out.
        blur: smooth the gradient of the image, for changes that blur.

    Reference: Athalye et al., ICML 2018.
    """

    def __init__(self, model: nn.Module, cuts: Sequence[Cut] = CUTS, blur: bool = False) -> None:
        super().__init__()
        self.model = model
        self.cuts = tuple(cuts)
        self.blur = blur
        self.training = model.training  # a new module starts in training mode and would put the model there too

    def forward(self, images: Tensor) -> Tensor:
        """The model's vectors."""
        if not images.requires_grad:
            z: Tensor = self.model(images)
            return z
        inside = "inside" in self.cuts
        with _without_hooks(self.model) if inside else nullcontext(), _own_backward() if inside else nullcontext():
            watch = _Watch(images, self.cuts, self.blur)
            with watch:
                z = self.model(images)
            return watch.reconnected(z)


class _Watch(TorchFunctionMode):
    """Sees every call of torch in a block."""

    def __init__(self, images: Tensor, cuts: Sequence[Cut], blur: bool) -> None:
        super().__init__()
        self.images = images
        self.cuts = cuts
        self.blur = blur
        self.features: Tensor | None = None
        self.twins: dict[int, tuple[Tensor, Tensor]] = {}

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs, name = kwargs or {}, _name(func)
        # Entering either also switches gradients on, whatever the model has switched off.
        with torch.inference_mode(False) if "inside" in self.cuts else nullcontext():
            if "before" in self.cuts and name in ENTRANCES:
                args = _mapped(self.like_image, args)
            if "inside" in self.cuts:
                found = RULES.get(name, with_twins)(self, func, args, kwargs)
            else:
                found = func(*args, **kwargs)
            if name in LAYERS and isinstance(found, Tensor) and found.ndim == 2 and len(found) == len(self.images):
                self.features = found if found.requires_grad else self.features
        return found

    def like_image(self, value: Any) -> Any:
        """A tensor that is the image, changed, with the gradient of the image; anything else as it is."""
        if not isinstance(value, Tensor) or value is self.images or not value.is_floating_point() or value.ndim != 4:
            return value
        if value.shape[1] != self.images.shape[1] or min(value.shape[2:]) < SMALLEST:
            return value
        for fitted in _fits(self.images[_matching_rows(value, self.images)], value.shape[2:]):
            source = _blurred(fitted) if self.blur else fitted
            scale, explained = _explained(value.detach(), fitted.detach())
            if explained >= LIKE:
                return joined(value, scale * source)
        return value

    def reconnected(self, z: Tensor) -> Tensor:
        """The model's vectors, with the gradient of those that its last layer gave."""
        last = self.features
        if last is None or last is z or last.shape != z.shape:
            return z
        if not z.requires_grad and "inside" in self.cuts:
            return joined(z, last)
        if "behind" not in self.cuts:
            return z
        if not _alike(z, last):
            return z
        return joined(z, last * (z.detach().norm() / last.detach().norm().clamp_min(1e-30)))


def _alike(one: Tensor, other: Tensor) -> bool:
    """Whether vectors point where others do, as they are or seen from their means."""
    pair = [v.detach().float() for v in (one, other)]
    seen = pair, [v - v.mean(0) for v in pair]
    return any(float(F.cosine_similarity(a, b, dim=1).mean()) >= LIKE for a, b in seen)


def _explained(value: Tensor, image: Tensor) -> tuple[Tensor, float]:
    """How a change scales each channel of an image, and the fraction of the outcome's variance that this explains."""
    value, image = (t.float() - t.float().mean((0, 2, 3), keepdim=True) for t in (value, image))
    scale = (value * image).sum((0, 2, 3), keepdim=True) / image.square().sum((0, 2, 3), keepdim=True).clamp_min(1e-12)
    left = (value - scale * image).square().sum()
    return scale, float(1 - left / value.square().sum().clamp_min(1e-12))


def _fits(images: Tensor, size: Sequence[int]) -> Iterator[Tensor]:
    """Images brought to a size in the ways that models do: as they are, resized, or their centre."""
    height, width = images.shape[2:]
    if (height, width) == tuple(size):
        yield images
        return
    yield F.interpolate(images, tuple(size), mode="bilinear", antialias=True, align_corners=False)
    top, left = (size[0] - height) // 2, (size[1] - width) // 2
    yield F.pad(images, (left, size[1] - width - left, top, size[0] - height - top))


def _matching_rows(value: Tensor, images: Tensor) -> Tensor | slice:
    """Which image each row of a tensor shows."""
    if len(value) == len(images):
        return slice(None)
    small = [F.adaptive_avg_pool2d(t.detach().float(), SMALLEST).flatten(1) for t in (value, images)]
    shown, known = (F.normalize(t - t.mean(1, keepdim=True), dim=1) for t in small)
    return (shown @ known.T).abs().argmax(1)


def _blurred(images: Tensor) -> Tensor:
    """A 3 × 3 binomial blur."""
    line = images.new_tensor([0.25, 0.5, 0.25])
    kernel = torch.outer(line, line).expand(images.shape[1], 1, 3, 3)
    return F.conv2d(F.pad(images, (1, 1, 1, 1), mode="replicate"), kernel, groups=images.shape[1])


def _name(func: Callable[..., Any]) -> str:
    """Of a function, a method, or the property that a getter reads."""
    name = getattr(func, "__name__", "")
    return f"get {func.__self__.__name__}" if name == "__get__" else name  # type: ignore[attr-defined]


def _mapped(change: Callable[[Any], Any], value: Any) -> Any:
    """Arguments with each tensor changed, those in lists included."""
    if isinstance(value, (tuple, list)) and type(value) in (tuple, list):
        return type(value)(_mapped(change, item) for item in value)
    return change(value)


@contextmanager
def _without_hooks(model: nn.Module) -> Iterator[None]:
    """A model whose hooks do not see gradients."""
    names = ("_backward_hooks", "_backward_pre_hooks")
    kept = [(part, name, getattr(part, name)) for part in model.modules() for name in names]
    try:
        for part, name, hooks in kept:
            setattr(part, name, type(hooks)())
        yield
    finally:
        for part, name, hooks in kept:
            setattr(part, name, hooks)


class _Context:
    """What a custom operation is given in place of its context: it may remember what it likes."""

    def __init__(self, args: Sequence[Any]) -> None:
        self.needs_input_grad = tuple(isinstance(a, Tensor) and a.requires_grad for a in args)

    def __getattr__(self, name: str) -> Any:
        return lambda *_: None


@contextmanager
def _own_backward() -> Iterator[None]:
    """Custom operations give the derivative of what they compute, whatever they say of it."""
    function = torch.autograd.Function
    usual = function.__dict__["apply"]

    def apply(cls: Any, *args: Any, **kwargs: Any) -> Any:
        alone = cls.setup_context is not function.setup_context
        found = cls.forward(*args, **kwargs) if alone else cls.forward(_Context(args), *args, **kwargs)
        given = next((a for a in args if isinstance(a, Tensor) and a.is_floating_point()), None)
        if isinstance(found, Tensor) and given is not None and not found.requires_grad and found.shape == given.shape:
            return joined(found, given)
        return found

    function.apply = classmethod(apply)  # type: ignore[assignment,method-assign]
    try:
        yield
    finally:
        function.apply = usual  # type: ignore[method-assign]
