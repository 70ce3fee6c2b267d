"""What it costs that images keep their shapes: training steps on squashed squares and on shapes of their own, in turn.

    python benchmarks/geometry.py --backbone resnet50 --json geometry.json

The old way keeps squares of 256 px and cuts windows out of them by `grid_sample`, without smoothing; ours keeps every
image in its shape and resizes windows as torchvision does. Both feed the same step (multi-similarity, Adam, BatchNorm
frozen, bfloat16 and compiled on a GPU), one after the other in one process, so that what else happens on the machine
happens to both. Random pixels in shapes of photographs: speed does not depend on what they show.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from timing import write
from torch import Generator, Tensor
from torch.nn import functional as F

from holdfast import losses
from holdfast.data import RaggedImages
from holdfast.data.augment import RandomResizedCrop
from holdfast.models import Embedder
from holdfast.models.compiled import CompiledPasses

CANVAS, SIZE = 256, 224
RATIOS = (1.0, 1.25, 4 / 3, 1.5, 0.75)
"""Width over height of the images, in turn."""


def shapes(count: int) -> np.ndarray:
    """Heights and widths of photographs whose shorter side is the canvas."""
    ratios = np.resize(RATIOS, count)
    return np.stack((CANVAS * np.maximum(1, 1 / ratios), CANVAS * np.maximum(1, ratios)), 1).astype(np.int64)


def squares(images: Tensor, rows: Tensor, augment: RandomResizedCrop, generator: Generator) -> Tensor:
    """Windows of squashed images, as holdfast made them before images kept their shapes."""
    picked = images[rows].permute(0, 3, 1, 2)
    side = torch.full((len(rows),), CANVAS, device=images.device)
    numbers = augment.draw(len(rows), generator).to(images.device)
    top, left, height, width = augment.windows(side, side, numbers)[:, :, None].unbind(1)
    steps = (torch.arange(SIZE, device=images.device) + 0.5) / SIZE
    across = torch.where(numbers[:, -1:] < 0.5, 1 - steps, steps)
    y = torch.minimum((top + steps * height - 0.5).maximum(top), top + height - 1)
    x = torch.minimum((left + across * width - 0.5).maximum(left), left + width - 1)
    grid = torch.stack((x[:, None, :].expand(-1, SIZE, -1), y[:, :, None].expand(-1, -1, SIZE)), 3)
    floats = picked.to(torch.float32, memory_format=torch.channels_last).div_(255)
    grid = (2 * grid + 1) / CANVAS - 1
    sampled = F.grid_sample(floats, grid, mode="bilinear", padding_mode="border", align_corners=False)
    return sampled.contiguous(memory_format=torch.channels_last)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--backbone", default="resnet50")
    parser.add_argument("--images", type=int, default=2048)
    parser.add_argument("--batch", type=int, default=112)
    parser.add_argument("--steps", type=int, default=200, help="of each way")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    device = torch.device(options.device)
    own = shapes(options.images)
    pixels = torch.randint(0, 256, (int(own.prod(1).sum()), 3), dtype=torch.uint8, device=device)
    ragged = RaggedImages.shaped(pixels, own)
    squashed = torch.randint(0, 256, (options.images, CANVAS, CANVAS, 3), dtype=torch.uint8, device=device)
    model = Embedder(options.backbone, dim=128, size=SIZE, batchnorm="freeze-statistics").to(device)
    model.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    model.train()
    optimizer = torch.optim.Adam([p for p in model.parameters() if p.requires_grad], 1e-5)
    loss = losses.build("multi-similarity", miner="multi-similarity")
    call = CompiledPasses(model) if device.type == "cuda" else model
    labels = torch.arange(options.batch, device=device) // 2
    augment, generator = RandomResizedCrop(size=SIZE), Generator().manual_seed(0)

    def learn(images: Tensor) -> None:
        with torch.autocast(device.type, torch.bfloat16, enabled=device.type == "cuda"):
            z = call(images)
        loss(z.float(), labels).backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)

    def rows() -> Tensor:
        return torch.randint(options.images, (options.batch,), generator=generator).to(device)

    ways: dict[str, Callable[[], Tensor]] = {
        "squashed squares": lambda: squares(squashed, rows(), augment, generator),
        "shapes kept": lambda: augment(ragged[rows()], generator),
    }
    taken: dict[str, list[float]] = {name: [] for name in ways}
    viewing: dict[str, list[float]] = {name: [] for name in ways}
    wait = torch.cuda.synchronize if device.type == "cuda" else lambda: None
    warm = min(10, options.steps)
    for number in range(options.steps + warm):
        for name, make in ways.items():
            wait()
            start = time.perf_counter()
            images = make()
            wait()
            made = time.perf_counter()
            learn(images)
            wait()
            if number >= warm:
                taken[name].append(time.perf_counter() - start)
                viewing[name].append(made - start)
    old, new = (sum(taken[name]) for name in ways)
    table = [
        {
            "way": name,
            "step_ms": 1e3 * statistics.median(taken[name]),
            "views_ms": 1e3 * statistics.median(viewing[name]),
            "whole_s": sum(taken[name]),
        }
        for name in ways
    ]
    for row in table:
        print(f"{row['way']:18} step {row['step_ms']:7.2f} ms, of it views {row['views_ms']:6.2f} ms")
    print(f"shapes kept over squashed squares, {options.steps} steps each in turn: {new / old:.3f}")
    write([*table, {"way": "ratio", "ratio": new / old}], options.json)


if __name__ == "__main__":
    main()
