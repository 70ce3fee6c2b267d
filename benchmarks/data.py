"""From a folder of JPEG files to augmented batches: images per second, ours against one image at a time.

    python benchmarks/data.py --images 512 --json data.json

The peers' way opens, crops, resizes, mirrors and converts each image by itself with Pillow, the way torchvision's
transforms do, in one process (loader workers would share the same cores). Ours stores images at the crop size times
8/7 and cuts a whole batch at once.

- none: decoded at each use; - prefetch: the same, the next batch decoding while this one is augmented;
- memory: decoded once, then taken from memory; - fill: what that first decoding takes.
"""

from __future__ import annotations

import argparse
import math
import random
import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from PIL import Image
from timing import medians, write

from holdfast.data import ImageStore, augment, from_folder
from holdfast.view import View

BATCH = 64
CLASSES = 8


def make_folder(folder: Path, count: int, side: int) -> list[Path]:
    """Smooth random photographs, so that files have a size like real ones."""
    generator = np.random.default_rng(0)
    paths = []
    for number in range(count):
        path = folder / f"class{number % CLASSES}" / f"{number}.jpg"
        path.parent.mkdir(exist_ok=True)
        coarse = generator.integers(0, 256, (side // 8, side // 8 * 4 // 3, 3), np.uint8)
        Image.fromarray(coarse).resize((side * 4 // 3, side), Image.Resampling.BICUBIC).save(path, quality=90)
        paths.append(path)
    return paths


def peer_image(path: Path, size: int) -> torch.Tensor:
    """One random resized crop, mirrored half of the time."""
    with Image.open(path) as file:
        image = file.convert("RGB")
    width, height = image.size
    area = width * height * random.uniform(0.2, 1.0)
    ratio = math.exp(random.uniform(math.log(3 / 4), math.log(4 / 3)))
    w, h = min(width, round(math.sqrt(area * ratio))), min(height, round(math.sqrt(area / ratio)))
    left, top = random.randint(0, width - w), random.randint(0, height - h)
    image = image.crop((left, top, left + w, top + h)).resize((size, size), Image.Resampling.BILINEAR)
    if random.random() < 0.5:
        image = image.transpose(Image.Transpose.FLIP_LEFT_RIGHT)
    return torch.from_numpy(np.array(image)).permute(2, 0, 1).float().div(255)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--images", type=int, default=512)
    parser.add_argument("--side", type=int, default=360, help="height of the files; they are a third wider")
    parser.add_argument("--size", type=int, default=224)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--json", type=Path, help="also write the rows to this file")
    arguments = parser.parse_args()
    size, view = arguments.size, View(arguments.size, arguments.size * 8 // 7)
    with tempfile.TemporaryDirectory() as name:
        paths = make_folder(Path(name), arguments.images, arguments.side)
        table = from_folder(name)
        batches = torch.arange(len(paths)).split(BATCH)
        cut = augment.build("random-resized-crop", size=size)
        generator = torch.Generator().manual_seed(0)
        decoding, cached = (ImageStore(table, view, "cpu", cache) for cache in ("none", "memory"))

        def peers() -> None:
            for rows in batches:
                torch.stack([peer_image(paths[row], size) for row in rows.tolist()])

        def ours(store: ImageStore, ahead: bool) -> None:
            for number, rows in enumerate(batches):
                images = store.get(rows)
                if ahead and number + 1 < len(batches):
                    store.prefetch(batches[number + 1])
                cut(images, generator)

        works: dict[str, Callable[[], object]] = {
            "peers": peers,
            "none": lambda: ours(decoding, False),
            "prefetch": lambda: ours(decoding, True),
            "fill": lambda: ImageStore(table, view, "cpu", "memory"),
            "memory": lambda: ours(cached, False),
        }
        taken = medians(works, arguments.repeats)
    rows = [{"row": n, "images_per_s": len(paths) / s, "ratio": taken["peers"] / s} for n, s in taken.items()]
    print(f"{'data path':10} {'images/s':>9} {'× peers':>8}")
    for row in rows:
        print(f"{row['row']:10} {row['images_per_s']:9.0f} {row['ratio']:8.2f}")
    write(rows, arguments.json)


if __name__ == "__main__":
    main()
