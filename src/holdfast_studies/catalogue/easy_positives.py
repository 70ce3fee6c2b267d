"""EPS: digits (E1), losses (E2), letters (E3, E7), batches (E4), trimming (E5), and label noise, computed (E6)."""

from __future__ import annotations

from typing import Any

from holdfast_studies.base import Plan, study
from holdfast_studies.catalogue import easy_positives_arms as eps
from holdfast_studies.catalogue.easy_positives_arms import LOSSES, OMNIGLOT, SEEN, SOFT, LossGround
from holdfast_studies.jobs import Arm, Computation, Measure, Probe, Scale

SEEDS = tuple(range(8))
"""Of E1, as many runs as the paper's tables have: a network into the plane comes out differently each time."""

UPDATE = 80
"""Images of each parity in an update on MNIST."""

READINGS: dict[Scale, tuple[tuple[int, int], ...]] = {
    "pocket": ((2, UPDATE),),
    "paper": ((2, UPDATE), (10, UPDATE), (2, 20), (10, 20)),
}
"""Epochs on MNIST and positives that the nearest is chosen from, neither of which the paper says."""

OTHER_MS = "MS, λ 0.5, β 40"
SOFTHARD = "triplet, softhard"


def mnist(epochs: int, positives: int) -> LossGround:
    """MNIST, learnt for so long, with so many images of a parity in each part of an update."""
    settings = {"on_collapse": "warn", "evaluate_every": epochs}
    data, reading = {"name": "mnist", "labels": "coarse"}, f"{epochs} epochs"
    row: dict[str, Any] = {"epochs": epochs}
    if positives != UPDATE:
        reading += f", {positives} of a parity"
        row |= {"batch.per_class": positives, "accumulate": UPDATE // positives}
    return LossGround(f"MNIST, {reading},", data, "eps-mnist", row, settings, seeds=SEEDS, reading=reading)


@study("E1")
def odd_and_even(scale: Scale) -> Plan:
    """Trained on odd against even, easy positives keep the digits apart and retrieve unseen ones better."""
    held_out = {"split": "test", "data": {"protocol": "seen"}}  # of the digits trained on, as in the paper's figure 2
    grounds = [(mnist(*reading), held_out) for reading in READINGS[scale]]
    grounds += [(eps.DIGITS, {"split": "train"})] if scale == "pocket" else []
    arms: list[Arm] = []
    for ground, seen in grounds:
        measures: tuple[Measure, ...] = (Probe("retrieval", seen, "seen"), Probe("plane", seen))
        arms += ground.pair("triplet", eps.PAIRS["random"], measures)
    return Plan(arms)


@study("E2")
def three_losses(scale: Scale) -> Plan:
    """Easy positives improve triplet, margin and multi-similarity."""
    several = {("CARS", "margin"): (0, 1)}  # seeds of the rows that the paper is cited for
    arms: list[Arm] = []
    for ground in (eps.GLYPHS,) if scale == "pocket" else (eps.CUB, eps.CARS):
        for name, pair in LOSSES.items():
            arms += ground.pair(name, pair, seeds=several.get((ground.label, name)))
        if scale == "paper":
            arms += [ground.arm(SOFTHARD, eps.SOFTHARD, reading=SOFT), *ground.pair(OTHER_MS, eps.PAIRS[OTHER_MS])]
    return Plan(arms)


def omniglot_arms(scale: Scale) -> list[Arm]:
    """Three losses without and with easy positives, at paper scale also triplets read the other way."""
    ground = OMNIGLOT[scale]
    arms = [arm for name, pair in LOSSES.items() for arm in ground.pair(name, pair, (SEEN,))]
    return arms + ([ground.arm(SOFTHARD, eps.SOFTHARD, (SEEN,), reading=SOFT)] if scale == "paper" else [])


@study("E3")
def letters_unseen(scale: Scale) -> Plan:
    """Trained on languages only, easy positives retrieve the letters of unseen languages far better."""
    if scale == "paper":
        return Plan(omniglot_arms(scale) + OMNIGLOT[scale].pair(OTHER_MS, eps.PAIRS[OTHER_MS]))
    embedded = [arm for name in ("triplet", "MS") for arm in eps.SCRIPTS.pair(name, LOSSES[name])]
    return Plan(omniglot_arms(scale) + embedded)


@study("E7")
def letters_seen(scale: Scale) -> Plan:
    """On the training set easy positives fit languages less and letters more."""
    return Plan(omniglot_arms(scale))


IMAGES: dict[Scale, int] = {"pocket": 112, "paper": 160}
"""Of one update."""

BATCHES: dict[Scale, dict[int, int]] = {"pocket": {2: 2, 4: 1, 8: 1}, "paper": {2: 4, 4: 2, 8: 1}}
"""Images per class → batches that make one update: there are 30 languages, and few images of each do not fill one. The
largest number of E4, 16, is E3's training."""


@study("E4")
def positives_in_batch(scale: Scale) -> Plan:
    """More positives in a batch to choose the easiest from, better letters."""
    ground, pair = OMNIGLOT[scale], LOSSES["margin"]
    arms = []
    for number, parts in BATCHES[scale].items():
        classes = IMAGES[scale] // number
        row = {**pair.easy, "batch.classes": classes, "batch.per_class": number}
        ours: dict[str, Any] = {} if parts == 1 else {"batch.classes": classes // parts, "accumulate": parts}
        if scale == "pocket":
            ours = {"batch.classes": classes // parts, "batch.per_class": number, **ours}
        arms.append(ground.arm(f"{number} per language", row, settings=ours))
    return Plan(
        [*arms, ground.arm("16 per language", pair.easy, (SEEN,)), ground.arm("without EPS", pair.usual, (SEEN,))]
    )


KEPT: dict[str, tuple[float, ...]] = {"margin": (0.9, 0.7, 0.5), "random triplet": (0.9, 0.7)}
"""Shares of the tuples that still count."""


@study("E5")
def trimming(scale: Scale) -> Plan:
    """Leaving out the costliest tuples does not replace easy positives."""
    ground = OMNIGLOT[scale]
    arms: list[Arm] = []
    for name, kept in KEPT.items():
        pair, measures = (
            (LOSSES["margin"], (SEEN,)) if name == "margin" else (eps.PAIRS["random"], ())
        )  # as E3 has them
        arms += ground.pair(name, pair, measures)
        for keep in kept:
            loss = {"name": "trimmed", "keep": keep, "loss": pair.usual["loss"]}
            arms.append(ground.arm(f"{name}, keep {keep:g}", {**pair.usual, "loss": loss}))
    return Plan(arms)


MOST_POINTS, STEP = 48, 4
THEOREMS = "two classes, p 0.8"
NOISE = {
    THEOREMS: (2, 0.8),
    "two classes, p 0.6": (2, 0.6),
    "four classes, p 0.8": (4, 0.8),
    "four classes, p 0.6": (4, 0.6),
}
"""Arm → number of classes, and probability that a label is true: the theorems' own first, then how far they reach."""


@study("E6")
def under_label_noise(scale: Scale) -> Plan:
    """Under label noise the losses prefer collapsed classes; with easy positives and enough points, two modes.

    From two points per class to 48 in all.
    """
    arms = []
    for name, (classes, p) in NOISE.items():
        points = list(range(2 * classes, MOST_POINTS + 1, STEP))
        arguments = {"classes": classes, "p": p, "points": points, "search": classes == 2}
        differs = () if name == THEOREMS else (f"{name} for {THEOREMS}",)
        arms.append(Arm(name, Computation(measure=Probe("noisy-labels", arguments, "noise"), differs=differs)))
    return Plan(arms)
