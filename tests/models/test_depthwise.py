"""The fast way back through depthwise convolutions is the plain one."""

from __future__ import annotations

import copy

import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from torch import nn

from holdfast.models import Embedder
from holdfast.models.depthwise import DepthwiseConv, with_fast_depthwise


@settings(max_examples=60, deadline=None)
@given(
    stride=st.tuples(st.integers(1, 3), st.integers(1, 3)),
    kernel=st.tuples(st.integers(1, 5), st.integers(1, 5)),
    padding=st.tuples(st.integers(0, 4), st.integers(0, 4)),
    size=st.tuples(st.integers(3, 9), st.integers(3, 9)),
    bias=st.booleans(),
    last=st.booleans(),
)
def test_value_and_gradients_are_those_of_the_plain_convolution(
    stride: tuple[int, int],
    kernel: tuple[int, int],
    padding: tuple[int, int],
    size: tuple[int, int],
    bias: bool,
    last: bool,
) -> None:
    assume(all(p < k <= n + 2 * p for n, k, p in zip(size, kernel, padding, strict=True)))
    torch.manual_seed(0)
    plain = nn.Conv2d(4, 4, kernel, stride, padding, groups=4, bias=bias).double()
    fast = with_fast_depthwise(copy.deepcopy(plain))
    assert isinstance(fast, DepthwiseConv)
    layout = torch.channels_last if last else torch.contiguous_format
    maps = torch.rand(2, 4, *size, dtype=torch.float64).to(memory_format=layout).requires_grad_()
    found, wanted = fast.with_fast_gradient(maps), plain(maps)
    torch.testing.assert_close(found, wanted)
    weights = torch.randn_like(wanted)
    for_fast = torch.autograd.grad((found * weights).sum(), [maps, *fast.parameters()])
    for_plain = torch.autograd.grad((wanted * weights).sum(), [maps, *plain.parameters()])
    torch.testing.assert_close(for_fast, for_plain)


def test_the_gradient_can_be_differentiated_again() -> None:
    torch.manual_seed(0)
    layer = with_fast_depthwise(nn.Conv2d(2, 2, 3, 2, 1, groups=2).double())
    assert isinstance(layer, DepthwiseConv)
    maps = torch.rand(1, 2, 5, 5, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradgradcheck(layer.with_fast_gradient, maps)


@pytest.mark.parametrize("name", ["mobilenetv2_050", "torchvision:mobilenet_v2"])
def test_a_backbone_keeps_its_names_its_function_and_its_gradient(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    torch.manual_seed(0)
    model = Embedder(name, dim=8, size=32).eval().double()
    plain = copy.deepcopy(model)
    swapped = [part for part in plain.modules() if isinstance(part, DepthwiseConv)]
    assert len(swapped) == 17
    for part in swapped:
        part.__class__ = nn.Conv2d
    assert list(plain.state_dict()) == list(model.state_dict())
    monkeypatch.setattr(DepthwiseConv, "forward", DepthwiseConv.with_fast_gradient)  # what an ARM processor runs
    images = torch.rand(2, 3, 32, 32, dtype=torch.float64, requires_grad=True)
    found, wanted = model(images), plain(images)
    torch.testing.assert_close(found, wanted)
    gradients = [torch.autograd.grad((z[:, 0]).sum(), images)[0] for z in (found, wanted)]
    torch.testing.assert_close(gradients[0], gradients[1])


@pytest.mark.parametrize(
    "layer",
    [
        nn.Conv2d(4, 8, 3, groups=4),
        nn.Conv2d(4, 4, 3),
        nn.Conv2d(4, 4, 3, dilation=2, groups=4),
        nn.Conv2d(4, 4, 3, padding="same", groups=4),
        nn.Conv2d(4, 4, 3, padding=1, padding_mode="reflect", groups=4),
    ],
)
def test_other_convolutions_stay_as_they_are(layer: nn.Conv2d) -> None:
    assert type(with_fast_depthwise(layer)) is nn.Conv2d
