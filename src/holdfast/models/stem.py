"""The first convolution of a network, run on blocks of pixels where that is faster.

Attacks ask for the gradient of pixels, and for three channels GPUs compute it badly: in ResNet-18 the first layer takes
a third of a pass. A strided convolution of pixels is a plain convolution of s × s blocks of pixels, whose 3 s² channels
they like better; on one H200 a compiled pass forward and back to the pixels becomes a third faster.
"""

from __future__ import annotations

from torch import Tensor, channels_last, nn
from torch.nn import functional as F

LEAST_KERNEL = 5
"""Below it there is too little to gain: MobileNet's 3 × 3 loses more to rearranging than the product gains."""


class BlockedStem(nn.Conv2d):
    """A strided convolution of images; the same parameters and the same function as the layer it stands for.

    With stride s, padding p and kernel k, output i reads the pixels from s i - p to s i - p + k - 1. Zeros before and
    after fill the kernel up to whole blocks, so that it reads the blocks from i - ⌈p / s⌉ on.

    On a CPU, and for sizes that s does not divide, it is the plain convolution.
    """

    @classmethod
    def of(cls, conv: nn.Conv2d) -> BlockedStem:
        """A layer that shares the parameters of another."""
        new = cls(
            conv.in_channels,
            conv.out_channels,
            conv.kernel_size,  # type: ignore[arg-type]
            conv.stride,  # type: ignore[arg-type]
            conv.padding,  # type: ignore[arg-type]
            bias=conv.bias is not None,
        )
        new.weight, new.bias = conv.weight, conv.bias
        return new.train(conv.training)

    def forward(self, input: Tensor) -> Tensor:
        """Pixels (B, 3, H, W) to features."""
        stride = self.stride[0]
        if input.device.type != "cuda" or input.shape[2] % stride or input.shape[3] % stride:
            return super().forward(input)
        return self.by_blocks(input)

    def by_blocks(self, input: Tensor) -> Tensor:
        """The convolution on blocks of pixels; height and width are multiples of the stride."""
        stride, kernel, padding = self.stride[0], self.kernel_size[0], int(self.padding[0])
        before = -padding % stride
        after = -(before + kernel) % stride
        count = (before + kernel + after) // stride
        weight = F.pad(self.weight, (before, after, before, after))
        weight = weight.view(self.out_channels, self.in_channels, count, stride, count, stride)
        weight = weight.permute(0, 1, 3, 5, 2, 4).reshape(self.out_channels, -1, count, count)
        first = -(-padding // stride)
        outputs = [(length + 2 * padding - kernel) // stride + 1 for length in input.shape[2:]]
        height, width = (
            output + count - 1 - first - length // stride
            for output, length in zip(outputs, input.shape[2:], strict=True)
        )
        blocks = F.pad(F.pixel_unshuffle(input, stride), (first, width, first, height))
        return F.conv2d(blocks.contiguous(memory_format=channels_last), weight, self.bias)


def with_blocked_stem(backbone: nn.Module) -> nn.Module:
    """The backbone with its first convolution made fast, if it is one that can be."""
    found = next(((name, part) for name, part in backbone.named_modules() if isinstance(part, nn.Conv2d)), None)
    if found is None or not _fits(found[1]):
        return backbone
    parent, _, name = found[0].rpartition(".")
    setattr(backbone.get_submodule(parent), name, BlockedStem.of(found[1]))
    return backbone


def _fits(conv: nn.Conv2d) -> bool:
    return (
        type(conv) is nn.Conv2d  # a subclass may do anything
        and conv.in_channels == 3
        and len({*conv.stride}) == len({*conv.kernel_size}) == len({*conv.padding}) == 1
        and conv.stride[0] > 1
        and conv.stride[0] < conv.kernel_size[0] >= LEAST_KERNEL
        and (conv.dilation, conv.groups, conv.padding_mode) == ((1, 1), 1, "zeros")
        and not isinstance(conv.padding, str)
    )
