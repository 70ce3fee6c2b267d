"""Characters drawn from the fonts that matplotlib ships: a zero-shot retrieval task without any download."""

from __future__ import annotations

import functools
import importlib.util
import unicodedata
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageFont

from holdfast.data.readers.base import Reader, register
from holdfast.data.sources import ArraySource
from holdfast.data.splits import part_of_classes
from holdfast.data.table import ImageTable
from holdfast.errors import DataError, RecipeError
from holdfast.seeds import derive

SCRIPTS = (
    *("ARABIC", "ARMENIAN", "CANADIAN", "COPTIC", "CYRILLIC", "GEORGIAN", "GREEK", "HEBREW"),
    *("LAO", "LATIN", "LISU", "NKO", "OGHAM", "OLD", "TIFINAGH"),
)
"""First words of character names that are scripts; others ("MODIFIER", "MATHEMATICAL") are styles of Latin letters."""

CANVAS = 64
"""Characters are drawn at this size, longer side of the ink 48, before each image's own rotation, scale and shift."""

LOOK_ALIKE = 0.88
"""Two drawings whose ink has a cosine above this are one class: Latin A, Greek Alpha and Cyrillic A, or o and O."""


@register("glyphs")
@dataclass(frozen=True, kw_only=True)
class Glyphs(Reader):
    """Letters of fifteen scripts in up to twelve typefaces; train and test characters are disjoint.

    Every image is one character in one face, a little turned, scaled and moved, dark on light or light on dark, with
    noise. The fine label is the character, the coarse label its script. Characters that look like an earlier one are
    left out; scripts have equal shares as far as they have characters, and half of each script is for testing.

    Args:
        per_class: images of each character.
        characters: number of characters.
        size: side of the images in pixels.
        seed: of the choice of characters, the split and the drawing.

    Requirements: matplotlib (for its DejaVu fonts; it is not imported).
    Relations: `digits` is smaller and has handwriting; `omniglot` is the benchmark of the same kind.
    """

    per_class: int = 10
    characters: int = 626
    size: int = 32
    seed: int = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        for field, least in (("per_class", 2), ("characters", 4), ("size", 8)):
            if getattr(self, field) < least:
                raise RecipeError(f"glyphs: '{field}' must be at least {least}, got {getattr(self, field)}")

    def read(self) -> ImageTable:
        """All characters, half of each script in `train` and half in `test`."""
        images, chosen = _draw_all(self.per_class, self.characters, self.size, self.seed)
        characters = [c for c in chosen for _ in range(self.per_class)]
        scripts = np.array([SCRIPTS.index(_script(c)) for c in chosen])
        halves = [part_of_classes(np.flatnonzero(scripts == s), 0.5, self.seed) for s in np.unique(scripts)]
        test = np.repeat(np.isin(np.arange(len(chosen)), np.concatenate(halves)), self.per_class)
        splits, coarse = np.where(test, "test", "train"), [_script(c).lower() for c in characters]
        ids = [f"U+{ord(c):04X}/{i % self.per_class}" for i, c in enumerate(characters)]
        source = ArraySource(images)
        return ImageTable.of(source, classes=characters, splits=splits, ids=ids, name="glyphs", coarse=coarse)


def _script(character: str) -> str:
    return unicodedata.name(character, "").partition(" ")[0]


@functools.lru_cache(maxsize=4)
def _draw_all(per_class: int, characters: int, size: int, seed: int) -> tuple[NDArray[np.uint8], tuple[str, ...]]:
    """Grey images, the `per_class` of a character in a row, and the characters."""
    rng = np.random.default_rng(derive(seed, "glyphs"))
    chosen = _choose(characters, rng)
    faces = _faces()
    ink = np.empty((len(chosen) * per_class, size, size), np.float32)
    for i, character in enumerate(chosen):
        drawings = [_draw(character, face) for face, known in faces.items() if character in known]
        order = rng.permutation(len(drawings))
        for k in range(per_class):
            ink[i * per_class + k] = _place(drawings[order[k % len(order)]], size, rng)
    paper = rng.uniform(170, 255, (len(ink), 1, 1)).astype(np.float32)
    contrast = rng.uniform(80, 160, paper.shape).astype(np.float32)
    noise = rng.normal(0, 12, ink.shape).astype(np.float32)
    grey = paper - contrast * ink + noise
    grey = np.where(rng.random(paper.shape) < 0.5, grey, 255 - grey)
    return grey.round().clip(0, 255).astype(np.uint8), chosen


def _choose(count: int, rng: np.random.Generator) -> tuple[str, ...]:
    """Equal numbers per script; a script that runs out leaves its share to the others."""
    candidates = _distinct_characters()
    if count > len(candidates):
        raise RecipeError(f"glyphs: the fonts hold {len(candidates)} distinct characters; lower 'characters'")
    by_script = [[c for c in candidates if _script(c) == s] for s in SCRIPTS]
    by_script = [[group[i] for i in rng.permutation(len(group))] for group in by_script if group]
    rounds = [group[k] for k in range(max(map(len, by_script))) for group in by_script if k < len(group)]
    return tuple(sorted(rounds[:count]))


@functools.cache
def _distinct_characters() -> tuple[str, ...]:
    """Letters with at least two faces, in code order, without those that look like an earlier one."""
    faces = _faces()
    count = Counter(character for known in faces.values() for character in known)
    letters = sorted(c for c, n in count.items() if n >= 2)
    regular = next(iter(faces))
    letters = [c for c in letters if c in faces[regular]]
    ink = np.stack([np.asarray(_draw(c, regular).resize((24, 24)), np.float32).ravel() for c in letters])
    ink /= np.linalg.norm(ink, axis=1, keepdims=True)
    alike = ink @ ink.T > LOOK_ALIKE
    kept: list[int] = []
    for i in range(len(letters)):
        if not alike[i, kept].any():
            kept.append(i)
    return tuple(letters[i] for i in kept)


@functools.cache
def _faces() -> dict[Path, frozenset[str]]:
    """The twelve DejaVu text faces, the regular one first, and the letters each can draw."""
    spec = importlib.util.find_spec("matplotlib")
    if spec is None or spec.origin is None:
        raise DataError("the dataset 'glyphs' draws with matplotlib's fonts; install matplotlib")
    from fontTools.ttLib import TTFont  # type: ignore[import-untyped]  # comes with matplotlib

    folder = Path(spec.origin).parent / "mpl-data" / "fonts" / "ttf"
    faces = (p for p in folder.glob("DejaVu*.ttf") if "Display" not in p.name)
    paths = sorted(faces, key=lambda p: (p.stem != "DejaVuSans", p.stem))
    if not paths:
        raise DataError("matplotlib is installed without its DejaVu fonts, which 'glyphs' needs; reinstall matplotlib")
    letters = {p: map(chr, TTFont(p, lazy=True).getBestCmap()) for p in paths}
    return {
        p: frozenset(c for c in known if unicodedata.category(c)[0] == "L" and _script(c) in SCRIPTS)
        for p, known in letters.items()
    }


@functools.cache
def _font(face: Path) -> ImageFont.FreeTypeFont:
    return ImageFont.truetype(str(face), CANVAS, layout_engine=ImageFont.Layout.BASIC)


def _draw(character: str, face: Path) -> Image.Image:
    """The character in the middle of the canvas, its ink 48 pixels along the longer side."""
    sheet = Image.new("L", (4 * CANVAS, 4 * CANVAS))
    ImageDraw.Draw(sheet).text((CANVAS, CANVAS), character, fill=255, font=_font(face))
    tight = sheet.crop(sheet.getbbox())
    scale = 0.75 * CANVAS / max(tight.size)
    width, height = (max(round(side * scale), 1) for side in tight.size)
    fitted = tight.resize((width, height), Image.Resampling.BILINEAR)
    canvas = Image.new("L", (CANVAS, CANVAS))
    canvas.paste(fitted, ((CANVAS - fitted.width) // 2, (CANVAS - fitted.height) // 2))
    return canvas


def _place(drawn: Image.Image, size: int, rng: np.random.Generator) -> NDArray[np.float32]:
    """Ink in [0, 1] after a random rotation, scale and shift, at the final size."""
    angle = np.deg2rad(rng.uniform(-12, 12))
    zoom = rng.uniform(0.9, 1.25)
    shift = rng.uniform(-0.08, 0.08, 2) * CANVAS
    cos, sin, middle = np.cos(angle) * zoom, np.sin(angle) * zoom, CANVAS / 2
    x = middle - cos * (middle + shift[0]) - sin * (middle + shift[1])
    y = middle + sin * (middle + shift[0]) - cos * (middle + shift[1])
    moved = drawn.transform(drawn.size, Image.Transform.AFFINE, (cos, sin, x, -sin, cos, y), Image.Resampling.BILINEAR)
    return np.asarray(moved.resize((size, size), Image.Resampling.BILINEAR), np.float32) / np.float32(255)
