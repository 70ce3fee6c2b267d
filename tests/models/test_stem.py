"""The first convolution on blocks of pixels is the plain one."""

from __future__ import annotations

import copy

import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from torch import nn

from holdfast.models import Embedder
from holdfast.models.stem import BlockedStem, with_blocked_stem


@settings(max_examples=60, deadline=None)
@given(
    stride=st.integers(2, 4),
    kernel=st.integers(1, 9),
    padding=st.integers(0, 5),
    blocks=st.tuples(st.integers(3, 6), st.integers(3, 6)),
    bias=st.booleans(),
)
def test_blocks_give_the_value_and_gradients_of_the_plain_convolution(
    stride: int, kernel: int, padding: int, blocks: tuple[int, int], bias: bool
) -> None:
    assume(min(blocks) * stride + 2 * padding >= kernel)
    torch.manual_seed(0)
    plain = nn.Conv2d(3, 4, kernel, stride, padding, bias=bias).double()
    stem = BlockedStem.of(plain)
    pixels = torch.rand(2, 3, blocks[0] * stride, blocks[1] * stride, dtype=torch.float64, requires_grad=True)
    found, wanted = stem.by_blocks(pixels), plain(pixels)
    torch.testing.assert_close(found, wanted)
    weights = torch.randn_like(wanted)
    leaves = [pixels, *plain.parameters()]
    torch.testing.assert_close(
        torch.autograd.grad((found * weights).sum(), leaves), torch.autograd.grad((wanted * weights).sum(), leaves)
    )


@pytest.mark.parametrize("name", ["resnet18", "torchvision:resnet18"])
def test_a_backbone_keeps_its_names_and_its_function(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    torch.manual_seed(0)
    model = Embedder(name, dim=8, size=64).eval()
    assert isinstance(model.backbone.conv1, BlockedStem)
    plain = copy.deepcopy(model)
    plain.backbone.conv1.__class__ = nn.Conv2d
    assert list(plain.state_dict()) == list(model.state_dict())
    monkeypatch.setattr(BlockedStem, "forward", BlockedStem.by_blocks)  # what a GPU runs
    images = torch.rand(2, 3, 64, 64)
    torch.testing.assert_close(model(images), plain(images))


def test_on_a_cpu_it_is_the_same_to_the_bit() -> None:
    plain = nn.Conv2d(3, 8, 7, 2, 3)
    images = torch.rand(2, 3, 32, 32)
    assert torch.equal(BlockedStem.of(plain)(images), plain(images))


@pytest.mark.parametrize(
    "conv",
    [
        nn.Conv2d(3, 8, 3, stride=2, padding=1),
        nn.Conv2d(3, 8, 7, padding=3),
        nn.Conv2d(3, 8, 7, stride=2, padding="valid", dilation=2),
        nn.Conv2d(3, 8, 7, stride=2, padding=3, padding_mode="reflect"),
        nn.Conv2d(1, 8, 7, stride=2, padding=3),
        nn.Conv2d(3, 8, 16, stride=16),
        nn.Conv2d(3, 8, (7, 5), stride=2),
    ],
)
def test_what_does_not_fit_is_left_alone(conv: nn.Conv2d) -> None:
    assert with_blocked_stem(nn.Sequential(conv))[0] is conv  # type: ignore[index]


def test_a_network_without_convolutions_is_left_alone() -> None:
    network = nn.Sequential(nn.Flatten(), nn.Linear(12, 2))
    assert with_blocked_stem(network) is network
