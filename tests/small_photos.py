"""A user's folder of pictures."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from PIL import Image


def draw_photos(folder: Path) -> Path:
    """Twelve classes of five noisy pictures each, in `photos` under the folder."""
    draw = np.random.default_rng(0)
    for name in range(12):
        own = folder / "photos" / f"class-{name}"
        own.mkdir(parents=True)
        base = draw.integers(0, 255, (40, 50, 3))
        for picture in range(5):
            pixels = np.clip(base + draw.integers(-40, 40, base.shape), 0, 255).astype(np.uint8)
            Image.fromarray(pixels).save(own / f"{picture}.png")
    return folder / "photos"
