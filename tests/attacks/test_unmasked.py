"""Gradients that a model cannot mask: the same values, and the gradient of the bare network."""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from torch import Tensor, nn
from torch.nn import functional as F

from holdfast import seeds
from holdfast.attacks.estimated import FiniteDifferences, Smoothed
from holdfast.attacks.unmasked import Cut, Unmasked

SIZE = 16
Change = Callable[[Tensor], Tensor]


def network() -> nn.Sequential:
    with torch.random.fork_rng():
        torch.manual_seed(3)
        layers = [nn.Conv2d(3, 8, 3, 2, 1), nn.Tanh(), nn.Conv2d(8, 8, 3, 2, 1), nn.Tanh(), nn.Flatten()]
        return nn.Sequential(*layers, nn.Linear(128, 12)).eval().requires_grad_(False)


def photographs() -> Tensor:
    """Smooth images in colour."""
    coarse = torch.rand(6, 3, 4, 4, generator=seeds.generator(0, "photographs"))
    return F.interpolate(coarse, (SIZE, SIZE), mode="bicubic", align_corners=False).clamp(0.05, 0.95)


class Disguised(nn.Module):
    def __init__(
        self, before: Change | None = None, behind: Change | None = None, inside: Change | None = None
    ) -> None:
        super().__init__()
        self.network = network()
        self.before, self.behind = before, behind
        if inside:
            self.network[1].register_forward_hook(lambda module, inputs, maps: inside(maps))

    def forward(self, images: Tensor) -> Tensor:
        z = self.network(self.before(images) if self.before else images)
        return self.behind(z) if self.behind else z  # type: ignore[no-any-return]


def gradient(model: nn.Module) -> Tensor:
    images = photographs().requires_grad_()
    aim = torch.randn(6, 12, generator=seeds.generator(0, "aim"))
    loss = F.cosine_similarity(model(images), aim, dim=1).sum()
    return torch.autograd.grad(loss, images)[0] if loss.requires_grad else torch.zeros_like(images)


def agreement(found: Tensor, bare: Tensor) -> float:
    return float(F.cosine_similarity(found.flatten(1), bare.flatten(1), dim=1).mean())


def jpeg(images: Tensor) -> Tensor:
    found = []
    for image in (255 * images.detach()).round().byte().permute(0, 2, 3, 1).numpy():
        file = io.BytesIO()
        Image.fromarray(image).save(file, "JPEG", quality=80)
        found.append(torch.from_numpy(np.array(Image.open(file))).permute(2, 0, 1) / 255)
    return torch.stack(found)


class _Reversed(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, values: Tensor) -> Tensor:
        ctx.save_for_backward(values)
        return values.clone()

    @staticmethod
    def backward(ctx: Any, slope: Tensor) -> Tensor:  # type: ignore[override]
        return -slope


def reversed_back(values: Tensor) -> Tensor:
    return _Reversed.apply(values)  # type: ignore[no-any-return,no-untyped-call]


def unrecorded(values: Tensor) -> Tensor:
    with torch.no_grad():
        return values * 1


def hooked(values: Tensor) -> Tensor:
    if values.requires_grad:
        values.register_hook(lambda slope: 0 * slope)
    return values


CASES: dict[str, tuple[Cut, Disguised]] = {
    "a short wave": ("before", Disguised(lambda x: x + 0.01 * torch.sin(900 * x))),
    "JPEG in numpy": ("before", Disguised(jpeg)),
    "rounded in place": ("before", Disguised(lambda x: x.mul(32).round_().div_(32))),
    "bytes": ("before", Disguised(lambda x: (x * 64).to(torch.uint8).float() / 64)),
    "a reversed gradient": ("before", Disguised(reversed_back)),
    "image by image": ("before", Disguised(lambda x: torch.cat([jpeg(each[None]) for each in x]))),
    "tanh(1500 z)": ("behind", Disguised(behind=lambda z: torch.tanh(1500 * z))),
    "signs in numpy": ("behind", Disguised(behind=lambda z: torch.from_numpy(np.sign(z.detach().numpy())) + 0 * z)),
    "a wave on vectors": ("behind", Disguised(behind=lambda z: z + 0.01 * torch.sin(900 * z))),
    "rounded maps": ("inside", Disguised(inside=lambda h: (h * 16).round() / 16)),
    "floor and remainder": ("inside", Disguised(inside=lambda h: h - h % 0.05)),
    "integer maps": ("inside", Disguised(inside=lambda h: (h * 50).int() / 50)),
    "detached maps": ("inside", Disguised(inside=lambda h: h.detach())),
    "data of maps": ("inside", Disguised(inside=lambda h: h.data)),
    "maps without a graph": ("inside", Disguised(inside=unrecorded)),
    "a reversed gradient of maps": ("inside", Disguised(inside=reversed_back)),
    "a hook on maps": ("inside", Disguised(inside=hooked)),
}


@pytest.mark.parametrize("name", CASES)
def test_values_stay_and_the_gradient_is_that_of_the_network(name: str) -> None:
    cut, fake = CASES[name]
    bare, images = gradient(network()), photographs()
    assert torch.equal(Unmasked(fake)(images.requires_grad_()), fake(images))
    assert agreement(gradient(fake), bare) < 0.6, "its own gradient misleads"
    least = 0.8 if cut == "behind" else 0.9
    assert agreement(gradient(Unmasked(fake, [cut])), bare) > least
    assert agreement(gradient(Unmasked(fake)), bare) > least


def test_a_negative_is_known_as_such() -> None:
    bare = gradient(Disguised(lambda x: 1 - x))
    assert agreement(gradient(Unmasked(Disguised(lambda x: ((1 - x) * 32).round() / 32))), bare) > 0.9


def test_a_gradient_can_be_blurred() -> None:
    fake = CASES["a short wave"][1]
    plain, blurred = (gradient(Unmasked(fake, blur=blur)) for blur in (False, True))
    rough = [float(slope.diff(dim=3).square().mean() / slope.square().mean()) for slope in (plain, blurred)]
    assert rough[1] < 0.7 * rough[0]
    assert agreement(blurred, plain) > 0.5


def test_a_sound_network_keeps_its_gradient() -> None:
    bare = gradient(network())
    for cuts in (["before"], ["behind"], ["inside"], ["before", "inside", "behind"]):
        assert agreement(gradient(Unmasked(network(), cuts)), bare) > 0.999  # type: ignore[arg-type]


def test_a_model_is_given_back_as_it_was() -> None:
    model = network()
    hook = model[0].register_full_backward_hook(lambda module, before, behind: None)
    usual = torch.autograd.Function.apply
    Unmasked(model)(photographs().requires_grad_())
    assert len(model[0]._backward_hooks) == 1
    assert torch.autograd.Function.apply == usual
    hook.remove()

    def broken(images: Tensor) -> Tensor:
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        Unmasked(Disguised(broken))(photographs().requires_grad_())
    assert torch.autograd.Function.apply == usual


def test_a_hook_on_a_layer_does_not_bend_the_gradient() -> None:
    model = network()
    model[2].register_full_backward_hook(lambda module, before, behind: tuple(-slope for slope in before))
    bare = gradient(network())
    assert agreement(gradient(model), bare) < 0
    assert agreement(gradient(Unmasked(model)), bare) > 0.999


def test_a_resized_image_is_recognised() -> None:
    fake = Disguised(lambda x: F.avg_pool2d(F.interpolate(x.detach(), (32, 32), mode="bilinear"), 2))
    assert agreement(gradient(Unmasked(fake)), gradient(network())) > 0.9


def test_a_mean_over_noise_sees_past_bumps() -> None:
    rough = Disguised(lambda x: x + 0.01 * torch.sin(900 * x))
    smooth = Smoothed(rough, 0.02, 32, seeds.generator(0, "noise"))
    bare = gradient(network())
    assert agreement(gradient(smooth), bare) > agreement(gradient(rough), bare) + 0.1


def test_finite_differences_need_no_gradient() -> None:
    cut = Disguised(unrecorded)
    found = gradient(FiniteDifferences(cut, 0.01, 96, seeds.generator(0, "differences"), cells=4))
    coarse, bare = (F.avg_pool2d(slope, SIZE // 4) for slope in (found, gradient(network())))
    assert agreement(coarse, bare) > 0.5
    images = photographs().requires_grad_()
    differences = FiniteDifferences(cut, 0.01, 2, seeds.generator(0, "differences"))
    assert torch.allclose(differences(images), cut(images))
