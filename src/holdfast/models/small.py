"""Small networks for small images."""

from __future__ import annotations

from torch import nn


class SmallConvNet(nn.Sequential):
    """Strided convolutions for 28-64 px, fast on a CPU.

    Each stage halves the image with a 3×3 convolution of stride 2, BatchNorm and ReLU; the last map is flattened
    after average pooling to 2×2, which keeps a little of where things are (glyphs differ by layout).

    Args:
        widths: channels of the stages.
    """

    def __init__(self, widths: tuple[int, ...] = (32, 64, 128)) -> None:
        stages: list[nn.Module] = []
        for before, after in zip((3, *widths), widths, strict=False):
            stages += [
                nn.Conv2d(before, after, 3, stride=2, padding=1, bias=False),
                nn.BatchNorm2d(after),
                nn.ReLU(inplace=True),
            ]
        super().__init__(*stages, nn.AdaptiveAvgPool2d(2), nn.Flatten())


class MnistPlaneNet(nn.Sequential):
    """The EPS paper's MNIST network up to its last dense layer, whose two outputs are the embedding.

    Conv 3×3 of 32 and 64 filters, each with ReLU and BatchNorm, 2×2 max-pooling, dense 128. The plane itself comes from
    the embedder's head: `dim: 2, normalize: false`.
    """

    def __init__(self, size: int = 28) -> None:
        side = (size - 4) // 2
        super().__init__(
            nn.Conv2d(3, 32, 3),
            nn.ReLU(inplace=True),
            nn.BatchNorm2d(32),
            nn.Conv2d(32, 64, 3),
            nn.ReLU(inplace=True),
            nn.BatchNorm2d(64),
            nn.MaxPool2d(2),
            nn.Flatten(),
            nn.Linear(64 * side * side, 128),
            nn.ReLU(inplace=True),
        )
