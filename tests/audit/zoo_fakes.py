"""Planted fakes: models whose robustness is made of nothing, by kind, with what the audit has to find out."""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Callable, Mapping

import torch
from zoo_disguises import (
    Change,
    Decoy,
    Disguised,
    Hooked,
    Inside,
    Outside,
    RandomMember,
    backward,
    flipped_half,
    leaking,
    leaking_maps,
    leaking_vectors,
    levels,
    rolled,
    same,
    shuffled_pixels,
    sine,
    small_numbers,
    staircase,
    triangle,
    two_bits,
)
from zoo_filters import (
    Codebook,
    PatchBook,
    bilateral,
    cosine_blocks,
    dithered,
    jpeg,
    looked_up,
    median,
    rounded_frequencies,
    total_variation,
)

from holdfast.models import Embedder

Models = Mapping[str, Embedder]


@dataclasses.dataclass(frozen=True)
class Fake:
    """One planted fake.

    Args:
        kind: what hides the gradient.
        name: with its parameters.
        build: from trained models, by name.
        base: the trained model that it is made of.
    """

    kind: str
    name: str
    build: Callable[[Models], Disguised]
    base: str = "plain"

    def __str__(self) -> str:
        return f"{self.kind}: {self.name}"


def around(kind: str, name: str, before: Change = same, after: Change = same, base: str = "plain") -> Fake:
    """A fake with something before or after the network."""
    return Fake(kind, name, lambda models: Disguised(copy.deepcopy(models[base]), before, after).eval(), base)


def within(kind: str, name: str, change: Change, base: str = "plain") -> Fake:
    """A fake with something inside the network."""
    return Fake(kind, name, lambda models: Inside(copy.deepcopy(models[base]), change).eval(), base)


def _decoy(share: float, base: str = "plain") -> Fake:
    return Fake("decoy", f"cut, with {share:g} of another network", lambda m: Decoy(m[base], share).eval(), base)


def _member(name: str, before: Change = same) -> Fake:
    names = ("plain", "wide")
    return Fake(
        "random member", name, lambda m: RandomMember([copy.deepcopy(m[each]) for each in names], before).eval()
    )


def _hooked(name: str, bend: Change, base: str = "plain") -> Fake:
    return Fake("hooks", name, lambda models: Hooked(copy.deepcopy(models[base]), bend).eval(), base)


HELD_OUT = [
    around("dithering", "4 levels, leak", leaking(dithered(4)), base="wide"),
    around("dithering", "8 levels", dithered(8)),
    around("frequencies", "rounded to 0.2, leak", leaking(rounded_frequencies(0.2))),
    around("frequencies", "rounded to 0.4, leak", leaking(rounded_frequencies(0.4)), base="wide"),
    around("palette", "32 tones", looked_up),
    around("palette", "32 tones, leak", leaking(looked_up), base="wide"),
    _hooked("every second channel flipped", flipped_half),
    _hooked("a few pixels off", rolled, "wide"),
    Fake("served", "inference mode, with 0.001 of another network", lambda m: Outside(m["plain"], 1e-3).eval()),
    around("vector codes", "z + 0.02 triangle(400 z)", after=triangle(0.02, 400), base="wide"),
]
"""Added when thresholds were set, and not looked at before: most are of kinds of their own."""

ROBUST = [
    around("warp", "x + 0.02 sin(900 x), robust network", sine(0.02, 900), base="ACT"),
    around("rounding", "8 levels, leak, robust network", leaking(levels(8)), base="ACT"),
    around("JPEG", "Pillow, quality 50, leak, robust network", leaking(jpeg(50)), base="AT"),
]
"""Around networks of adversarial training, which hold a little by themselves."""

FAKES = [
    around("warp", "x + 0.02 sin(900 x)", sine(0.02, 900)),
    around("warp", "x + 0.01 sin(3000 x)", sine(0.01, 3000)),
    around("warp", "x + 0.03 sin(400 x)", sine(0.03, 400), base="wide"),
    around("warp", "x + 0.02 triangle(300 x)", triangle(0.02, 300)),
    around("exploding", "x + 0.001 sin(1e5 x)", sine(0.001, 1e5)),
    around("exploding", "x + 0.0001 sin(1e7 x)", sine(0.0001, 1e7), base="wide"),
    around("rounding", "8 levels", levels(8)),
    around("rounding", "8 levels, leak", leaking(levels(8))),
    around("rounding", "4 levels, leak", leaking(levels(4)), base="wide"),
    around("thermometer", "8 steps, slope 20000", staircase(8, 20000)),
    around("thermometer", "16 steps, slope 8000", staircase(16, 8000), base="wide"),
    around("JPEG", "Pillow, quality 50, leak", leaking(jpeg(50))),
    around("JPEG", "Pillow, quality 25, leak", leaking(jpeg(25)), base="wide"),
    around("JPEG", "cosine blocks, step 0.2", cosine_blocks(0.2)),
    around("JPEG", "cosine blocks, step 0.2, leak", leaking(cosine_blocks(0.2))),
    around("smoothing", "3×3 median, leak", leaking(median)),
    around("smoothing", "bilateral, leak", leaking(bilateral(0.1)), base="wide"),
    around("denoising loop", "total variation 0.02, leak", leaking(total_variation(8, 0.02))),
    around("denoising loop", "total variation 0.05, leak", leaking(total_variation(8, 0.05)), base="wide"),
    around("patch snapping", "96 patches, leak", leaking(PatchBook(96))),
    around("patch snapping", "768 patches, leak", leaking(PatchBook(768)), base="wide"),
    around("saturation", "tanh(1500 z)", after=lambda z: torch.tanh(1500 * z)),
    around("saturation", "sigmoid(1000 z)", after=lambda z: torch.sigmoid(1000 * z) - 0.5),
    around("vector codes", "two bits, leak", after=leaking_vectors(two_bits), base="wide"),
    around("vector codes", "round(10 z), leak", after=leaking_vectors(levels(10)), base="wide"),
    around("vector codes", "product quantisation, leak", after=leaking_vectors(Codebook(32, 64)), base="wide"),
    around("vector codes", "z + 0.05 sin(300 z)", after=sine(0.05, 300)),
    around("underflow", "float8, scale 256", small_numbers(torch.float8_e4m3fn, 256)),
    around("false backward", "zero", backward(lambda gradient, images: 0 * gradient)),
    around("false backward", "sign flipped", backward(lambda gradient, images: -gradient)),
    around("false backward", "random", backward(lambda gradient, images: torch.randn_like(gradient))),
    around("false backward", "pixels shuffled", backward(shuffled_pixels), base="wide"),
    _decoy(1e-3),
    _decoy(1e-6, "wide"),
    within("sharp activations", "h + 0.03 sin(400 h)", sine(0.03, 400)),
    within("sharp activations", "round(4 h), leak", leaking_maps(levels(4))),
    _member("of two, x + 0.02 sin(900 x)", sine(0.02, 900)),
    *HELD_OUT,
    *ROBUST,
]
