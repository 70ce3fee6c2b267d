"""Small pictures for tests."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
from PIL import Image

Paint = Callable[..., Path]
"""`paint("a/1.png", seed=3)` writes a picture below the test's folder and gives its path."""


def painted(seed: int, width: int = 24, height: int = 24) -> Image.Image:
    """A smooth random picture, different for every seed."""
    coarse = np.random.default_rng(seed).integers(0, 256, (6, 6, 3), dtype=np.uint8)
    return Image.fromarray(coarse).resize((width, height), Image.Resampling.BICUBIC)
