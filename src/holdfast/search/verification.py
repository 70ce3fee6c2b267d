"""Is it the same? Thresholds on the distance of two images, for a chosen false acceptance rate."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from holdfast import seeds
from holdfast.data import ImageStore, ImageTable
from holdfast.errors import DataError, SearchError
from holdfast.evaluation import choose_split, embed, read_table
from holdfast.models import Embedder
from holdfast.run_files import blocks, finite, parse_json
from holdfast.search.index import Thresholds
from holdfast.sphere import distances
from holdfast.versions import versions

SCHEMA = 1
USUAL_RATES = (1e-3, 1e-4)
LEAST_ACCEPTED = 10
"""False acceptances that a rate must rest on; with fewer, chance alone moves the threshold by more than a third."""
RESAMPLES = 200
CONFIDENCE = 0.95
MOST_IMAGES = 4000
"""Eight million pairs; of more images a seeded choice is paired."""
ROC_POINTS = 101

Numbers = NDArray[np.float64]


@dataclasses.dataclass(frozen=True)
class VerificationPairs:
    """Distances of pairs of images, nearest first, and the classes they are of.

    Args:
        positive: distances of pairs of one class.
        positive_class: that class.
        negative: distances of pairs of two classes.
        negative_classes: these two, shape (n, 2).
        sizes: images of each class.
    """

    positive: Numbers
    positive_class: NDArray[np.int64]
    negative: Numbers
    negative_classes: NDArray[np.int64]
    sizes: NDArray[np.int64]

    @property
    def smallest_far(self) -> float:
        """The smallest rate of false acceptance that so many negative pairs can estimate, rounded up to two digits."""
        least = self._least
        unit = 10.0 ** (math.floor(math.log10(least)) - 1)
        return float(f"{math.ceil(least / unit - 1e-9) * unit:.1e}")

    @property
    def _least(self) -> float:
        return LEAST_ACCEPTED / max(len(self.negative), 1)

    def can_tell(self, far: float) -> bool:
        """Whether they are enough to estimate a rate of false acceptance."""
        return far >= self._least


@dataclasses.dataclass(frozen=True)
class Threshold:
    """Where to accept.

    Args:
        far: the rate of false acceptance asked for.
        threshold: accept two images as the same where their distance is below.
        tar: fraction of the positive pairs that are accepted, in percent.
        interval: of `tar`, at 95 % confidence, if other classes of the kind had been drawn.
        accepted: negative pairs that are accepted.
    """

    far: float
    threshold: float
    tar: float
    interval: tuple[float, float]
    accepted: int


def pair_up(vectors: Tensor, labels: Tensor, groups: Tensor | None = None) -> VerificationPairs:
    """Every pair of some vectors.

    Args:
        vectors: of shape (n, dim).
        labels: class of each.
        groups: such as its camera; pairs of one class and one group are too easy and left out.
    """
    _, classes, sizes = torch.unique(labels, return_inverse=True, return_counts=True)
    one, other = torch.triu_indices(len(vectors), len(vectors), 1)
    apart = distances(vectors.double())[one, other]
    same = classes[one] == classes[other]
    negative, positive = ~same, same if groups is None else same & (groups[one] != groups[other])
    counts = int(positive.sum()), int(negative.sum())
    if not counts[0] or counts[1] <= LEAST_ACCEPTED:
        wanted = f"calibration needs pairs of images of one class, and more than {LEAST_ACCEPTED} pairs of two classes"
        add = "classes" if counts[0] else "images of each class"
        raise DataError(f"{wanted}; there are {counts[0]} and {counts[1]}: add {add}")
    near, order = apart[positive].sort(stable=True)
    far, far_order = apart[negative].sort(stable=True)
    far_classes = torch.stack((classes[one], classes[other]), 1)[negative][far_order]
    near_class = classes[one][positive][order]
    return VerificationPairs(*(part.numpy() for part in (near, near_class, far, far_classes, sizes)))


def thresholds(pairs: VerificationPairs, fars: Sequence[float], seed: int = 0) -> list[Threshold]:
    """A threshold for each rate of false acceptance; a rate that too few pairs would estimate is refused."""
    for far in fars:
        if not 0 < far < 1:
            raise DataError(f"a rate of false acceptance lies between 0 and 1, got {far:g}")
        if not pairs.can_tell(far):
            few = f"{len(pairs.negative):,} negative pairs are too few to estimate a FAR of {far:g}"
            raise DataError(f"{few}; the smallest they allow is {pairs.smallest_far:.1e}: ask for that, or add images")
    found = []
    for far in fars:
        at = _limit(pairs.negative, far)
        accepted = int(np.searchsorted(pairs.negative, at))
        tar = 100 * float(np.searchsorted(pairs.positive, at)) / len(pairs.positive)
        found.append(Threshold(far, at, tar, _interval(pairs, far, seed), accepted))
    return found


def _limit(negative: Numbers, far: float) -> float:
    """The distance below which at most a fraction `far` of the sorted negative pairs lie."""
    return float(negative[min(math.floor(far * len(negative) + 1e-9), len(negative) - 1)])


def _interval(pairs: VerificationPairs, far: float, seed: int) -> tuple[float, float]:
    """Bootstrap over classes: pairs that share a class are not independent, classes are.

    A resample draws as many classes as there are, with repeats; a pair counts as often as its classes were drawn.
    Only the nearest negative pairs can decide a threshold, so only these are weighed.
    """
    draw = np.random.default_rng(seeds.derive(seed, "bootstrap"))
    count, sizes = len(pairs.sizes), pairs.sizes.astype(np.float64)
    tail = slice(0, math.ceil(min(1.0, 8 * far) * len(pairs.negative)))
    classes, ends = pairs.negative_classes[tail], pairs.negative[tail]
    found = []
    for _ in range(RESAMPLES):
        times = np.bincount(draw.integers(count, size=count), minlength=count).astype(np.float64)
        total = ((times @ sizes) ** 2 - (times * sizes) @ (times * sizes)) / 2
        weights = np.cumsum(times[classes[:, 0]] * times[classes[:, 1]])
        at = ends[min(int(np.searchsorted(weights, far * total, side="right")), len(ends) - 1)]
        own = times[pairs.positive_class]
        if total > 0 and own.sum() > 0:
            found.append(100 * own[: np.searchsorted(pairs.positive, at)].sum() / own.sum())
    edge = (1 - CONFIDENCE) / 2
    low, high = np.quantile(found, [edge, 1 - edge])
    return float(low), float(high)


def roc(pairs: VerificationPairs) -> dict[str, list[float]]:
    """Rates of false and of true acceptance in percent, with their thresholds, from the smallest rate to all."""
    rates = np.geomspace(min(pairs.smallest_far, 1.0), 1.0, ROC_POINTS)
    at = np.array([_limit(pairs.negative, rate) for rate in rates])
    at[-1] = np.nextafter(max(pairs.negative[-1], pairs.positive[-1]), np.inf)
    return {
        "threshold": at.tolist(),
        "FAR": (100 * np.searchsorted(pairs.negative, at) / len(pairs.negative)).tolist(),
        "TAR": (100 * np.searchsorted(pairs.positive, at) / len(pairs.positive)).tolist(),
    }


def calibrate(
    model: Embedder,
    data: str | dict[str, Any] | ImageTable,
    fars: Sequence[float] | None = None,
    *,
    split: str | None = None,
    batch: int = 256,
    seed: int = 0,
    skip_bad: bool = False,
) -> dict[str, Any]:
    """Thresholds for rates of false acceptance, with the curve they lie on, as plain data.

    Args:
        model: in eval mode, on its device.
        data: labelled images.
        fars: the rates; when left out, one in a thousand and in ten thousand, where there are enough pairs.
        split: which images; by default those a paper would report on.
        batch: images per pass.
        seed: of the choice of images, where there are too many to pair, and of the bootstrap.
        skip_bad: leave unreadable images out.
    """
    table, skip_bad = read_table(data, skip_bad)
    if not table.labelled:
        raise DataError(f"the images of '{table.name}' have no labels to pair by; give folder:DIR or csv:FILE")
    chosen = choose_split(table, split)
    table = table.split(chosen)
    if len(table) > MOST_IMAGES:
        drawn = torch.randperm(len(table), generator=seeds.generator(seed, "pairs"))[:MOST_IMAGES]
        table = table.subset(drawn.sort().values)
    store = ImageStore(table, model.view, model.mean.device, skip_bad=skip_bad)
    vectors = embed(model, store, batch)
    groups = store.table.groups
    pairs = pair_up(vectors, torch.tensor(store.table.labels), None if groups is None else torch.tensor(groups))
    if fars is None:
        fars = [far for far in USUAL_RATES if pairs.can_tell(far)] or [pairs.smallest_far]
    return {
        "schema": SCHEMA,
        "split": chosen,
        "images": len(vectors),
        "classes": len(pairs.sizes),
        "pairs": {"positive": len(pairs.positive), "negative": len(pairs.negative)},
        "smallest_far": pairs.smallest_far,
        "thresholds": [dataclasses.asdict(one) for one in thresholds(pairs, fars, seed)],
        "roc": roc(pairs),
        "skipped": [{"image": image, "reason": reason} for image, reason in store.skipped],
        "seed": seed,
        "versions": versions(),
    }


def thresholds_of(document: Mapping[str, Any]) -> Thresholds:
    """Rates and distances of what `calibrate` returned, read from a file without trust."""
    pairs = [(finite(one.get("far")), finite(one.get("threshold"))) for one in blocks(document, "thresholds")]
    return tuple((far, at) for far, at in pairs if far is not None and at is not None and 0 < far < 1 and at >= 0)


def read_thresholds(file: Path) -> Thresholds:
    """What `holdfast calibrate` wrote into a file."""
    try:
        document = parse_json(file.read_text("utf-8"))
    except ValueError:
        document = None
    found = thresholds_of(document) if isinstance(document, dict) else ()
    if not found:
        raise SearchError(f"{file} holds no thresholds; make it with `holdfast calibrate MODEL --data DATA --out FILE`")
    return found


def threshold_at(known: Thresholds, far: float | None = None) -> float | None:
    """The distance for a rate of false acceptance, or for the first that is known; None where none is.

    A rate is known by its first digits, as tables show it.
    """
    if far is None:
        return known[0][1] if known else None
    nearest = min(known, key=lambda one: abs(one[0] - far), default=None)
    if nearest is not None and math.isclose(nearest[0], far, rel_tol=1e-3):
        return nearest[1]
    rates = ", ".join(f"{rate:g}" for rate, _ in known)
    raise SearchError(
        f"there is no threshold for a FAR of {far:g}; "
        + (f"those known are {rates}" if known else "find one with `holdfast calibrate`, and give --verification FILE")
    )
