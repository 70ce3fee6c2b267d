"""Ways to look robust: a trained network behind something that hides its gradient and hardly changes its vectors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from holdfast import seeds

Change: TypeAlias = Callable[[Tensor], Tensor]


def same(values: Tensor) -> Tensor:
    return values


class Disguised(nn.Module):
    """A network with something before and after it.

    Args:
        network: images in [0, 1] to vectors.
        before: what is done to images.
        after: what is done to vectors.
    """

    def __init__(self, network: nn.Module, before: Change = same, after: Change = same) -> None:
        super().__init__()
        self.network = network
        self.before = before
        self.after = after

    def forward(self, images: Tensor) -> Tensor:
        return self.after(self.network(self.before(images)))

    def unmasked(self, images: Tensor) -> Tensor:
        """The same vectors with the gradient that the network alone would have: BPDA by one who knows the disguise."""
        seen = images + (self.before(images) - images).detach()
        vectors = self.network(seen)
        return vectors + (self.after(vectors) - vectors).detach()


class Inside(Disguised):
    """A network with something done to its hidden maps, behind every ReLU.

    Args:
        network: with `nn.ReLU` modules.
        change: what is done to their outputs.
    """

    def __init__(self, network: nn.Module, change: Change) -> None:
        super().__init__(network)
        self.change = change
        self.identity_back = False
        for module in network.modules():
            if isinstance(module, nn.ReLU):
                module.inplace = False
                module.register_forward_hook(self._changed)

    def _changed(self, module: nn.Module, inputs: Any, maps: Tensor) -> Tensor:
        changed = self.change(maps)
        return maps + (changed - maps).detach() if self.identity_back else changed

    def unmasked(self, images: Tensor) -> Tensor:
        self.identity_back = True
        try:
            vectors: Tensor = self.network(images)
        finally:
            self.identity_back = False
        return vectors


class Decoy(Disguised):
    """A network whose gradient is cut, with a small part of another, untrained one that has one.

    Args:
        network: whose vectors count.
        share: of the other's vectors.
    """

    def __init__(self, network: nn.Module, share: float) -> None:
        super().__init__(network)
        with torch.random.fork_rng():
            torch.manual_seed(seeds.derive(0, "decoy"))
            self.decoy = nn.Sequential(nn.Conv2d(3, 8, 5, 4, 2), nn.ReLU(), nn.Flatten(), nn.LazyLinear(network.dim))
            self.decoy(torch.zeros(1, 3, network.size, network.size))
        self.share = share

    def forward(self, images: Tensor) -> Tensor:
        return self.network(images).detach() + self.share * self.decoy(images)

    def unmasked(self, images: Tensor) -> Tensor:
        vectors: Tensor = self.network(images)
        return vectors


class Hooked(Disguised):
    """A network whose layers bend gradients by hooks as they come back.

    Args:
        network: with convolutions.
        bend: gradient to gradient.
    """

    def __init__(self, network: nn.Module, bend: Change) -> None:
        super().__init__(network)
        self.bend = bend
        self.bent = True
        for module in network.modules():
            if isinstance(module, nn.Conv2d):
                module.register_forward_hook(self._watched)

    def _watched(self, module: nn.Module, inputs: Any, maps: Tensor) -> None:
        if maps.requires_grad and self.bent:
            maps.register_hook(self.bend)

    def unmasked(self, images: Tensor) -> Tensor:
        self.bent = False
        try:
            vectors: Tensor = self.network(images)
        finally:
            self.bent = True
        return vectors


class Outside(Decoy):
    """A network in inference mode, as served ones are, with a small part of another one that has a gradient."""

    def forward(self, images: Tensor) -> Tensor:
        with torch.inference_mode():
            vectors = self.network(images)
        return vectors.clone() + self.share * self.decoy(images)


class RandomMember(Disguised):
    """Vectors of several networks, of which each pass takes one, drawn anew, and leaves zeros for the others.

    Args:
        members: each trained by itself.
        before: what is done to images.
    """

    def __init__(self, members: list[nn.Module], before: Change = same) -> None:
        super().__init__(nn.ModuleList(members), before)

    def forward(self, images: Tensor) -> Tensor:
        drawn = int(torch.randint(len(self.network), ()))
        images = self.before(images)
        return torch.cat([float(number == drawn) * member(images) for number, member in enumerate(self.network)], 1)

    def unmasked(self, images: Tensor) -> Tensor:
        seen = images + (self.before(images) - images).detach()
        return torch.cat([member(seen) for member in self.network], 1)


class _Back(torch.autograd.Function):
    """The identity, with another way back."""

    @staticmethod
    def forward(ctx: Any, images: Tensor, back: Callable[[Tensor, Tensor], Tensor]) -> Tensor:
        ctx.save_for_backward(images)
        ctx.back = back
        return images.clone()

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:  # type: ignore[override]
        (images,) = ctx.saved_tensors
        return ctx.back(gradient, images), None


def backward(back: Callable[[Tensor, Tensor], Tensor]) -> Change:
    """The identity, whose gradient is `back(gradient, images)`."""
    return lambda images: _Back.apply(images, back)  # type: ignore[no-any-return,no-untyped-call]


def shuffled_pixels(gradient: Tensor, images: Tensor) -> Tensor:
    order = torch.randperm(gradient[0].numel(), generator=seeds.generator(0, "shuffled")).to(gradient.device)
    return gradient.flatten(1)[:, order].view_as(gradient)


def flipped_half(gradient: Tensor) -> Tensor:
    """Every second channel with the wrong sign."""
    sign = 1 - 2 * (torch.arange(gradient.shape[1], device=gradient.device) % 2)
    return gradient * sign.view(1, -1, 1, 1)


def rolled(gradient: Tensor) -> Tensor:
    """A few pixels off."""
    return gradient.roll((3, 5), dims=(2, 3))


def blurred(images: Tensor, width: int = 5) -> Tensor:
    return F.avg_pool2d(F.pad(images, [width // 2] * 4, mode="reflect"), width, 1)


def leaking(change: Change, share: float = 1e-3) -> Change:
    """A change without a gradient, and a small share of a blurred copy that has one: no gradient is zero."""
    return lambda images: change(images).detach() + share * blurred(images)


def leaking_vectors(change: Change, share: float = 1e-3) -> Change:
    """The same for vectors; each coordinate leaks into another one."""
    return lambda vectors: change(vectors).detach() + share * vectors.roll(1, dims=1)


def levels(count: int) -> Change:
    return lambda values: (values * count).round() / count


def two_bits(vectors: Tensor) -> Tensor:
    """The sign of each coordinate, and whether it is large."""
    return torch.sign(vectors) * (1 + 0.5 * torch.sign(vectors.abs() - 0.12))


def sine(size: float, frequency: float) -> Change:
    return lambda values: values + size * torch.sin(frequency * values)


def triangle(size: float, frequency: float) -> Change:
    """Straight lines up and down in place of a sine."""
    return lambda values: values + size * (2 * ((frequency * values) % 2 - 1).abs() - 1)


def staircase(count: int, slope: float) -> Change:
    """Thermometer code and its sum: levels that are joined by steep but smooth steps."""

    def climb(images: Tensor) -> Tensor:
        steps = (torch.arange(count, device=images.device) + 0.5) / count
        return torch.sigmoid(slope * (images[..., None] - steps)).mean(-1)

    return climb


def small_numbers(dtype: torch.dtype, scale: float) -> Change:
    """Pixels in a format of few bits, multiplied so that gradients fall below its smallest number."""
    return lambda images: (images * scale).to(dtype).float() / scale


def leaking_maps(change: Change, share: float = 1e-2) -> Change:
    """A change of hidden maps without a gradient, and a share of the maps of other channels that has one."""
    return lambda maps: change(maps).detach() + share * (maps.roll(1, 1) - maps.roll(1, 1).detach())
