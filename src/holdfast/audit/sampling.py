"""Which images are attacked, and how sure a figure is."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from statistics import NormalDist

import torch
from torch import Tensor

from holdfast import seeds

RESAMPLES = 1000
RESAMPLED_AT_ONCE = 2**20
FEW_RESAMPLES = 100
"""For statistics that must be computed anew on every resample."""
CONFIDENCE = 0.95


def balanced_rows(labels: Tensor, limit: int | None, seed: int) -> Tensor:
    """All rows, or a seeded subset in which no class has more than one image more than another, in ascending order.

    Args:
        labels: class of each row.
        limit: how many rows at most; None for all.
        seed: of the draw.
    """
    count = len(labels)
    if limit is None or limit >= count:
        return torch.arange(count)
    shuffled = torch.randperm(count, generator=seeds.generator(seed, "limit"))
    own = labels.cpu()[shuffled]
    by_class = own.argsort(stable=True)
    ordered = own[by_class]
    # Position of each image within its class, in shuffled order: all first ones come before any second one.
    turn = torch.arange(count) - torch.searchsorted(ordered, ordered)
    mixed = torch.randperm(count, generator=seeds.generator(seed, "ties"))
    queue = mixed[turn[mixed].argsort(stable=True)]
    return shuffled[by_class[queue[:limit]]].sort().values


def few_classes(labels: Tensor, classes: int, per_class: int, seed: int) -> Tensor:
    """A small, seeded set in which queries can find their class: some images each of some classes."""
    generator = seeds.generator(seed, "few")
    names = torch.unique(labels.cpu())
    names = names[torch.randperm(len(names), generator=generator)[:classes]]
    order = torch.randperm(len(labels), generator=generator)
    own = labels.cpu()[order]
    return torch.cat([order[own == name][:per_class] for name in names]).sort().values


def median_interval(values: Tensor, seed: int) -> tuple[float, float]:
    """Bootstrap confidence interval of a median over images; an end is infinite where that many values are."""
    medians = torch.cat([drawn.median(1).values for drawn in _resamples(values, seed)]).sort().values
    tail = (1 - CONFIDENCE) / 2
    return float(medians[int(tail * RESAMPLES)]), float(medians[int((1 - tail) * RESAMPLES) - 1])


def mean_interval(values: Tensor, seed: int) -> tuple[float, float]:
    """Bootstrap confidence interval of a mean over images."""
    return _ends(torch.cat([drawn.mean(1) for drawn in _resamples(values.double().cpu(), seed)]))


def share_interval(hits: Tensor) -> tuple[float, float]:
    """Wilson confidence interval of a share of images; resamples of none, or of all, would seem certain."""
    count, share, z = len(hits), float(hits.double().mean()), NormalDist().inv_cdf((1 + CONFIDENCE) / 2)
    weight = 1 + z * z / count
    middle = (share + z * z / (2 * count)) / weight
    half = z * math.sqrt(share * (1 - share) / count + (z / (2 * count)) ** 2) / weight
    return max(0.0, min(share, middle - half)), min(1.0, max(share, middle + half))


def _resamples(values: Tensor, seed: int) -> Iterator[Tensor]:
    """Many resamples of some values, one per row, as many at a time as memory holds easily."""
    count, generator = len(values), seeds.generator(seed, "bootstrap")
    most = max(1, RESAMPLED_AT_ONCE // count)
    for done in range(0, RESAMPLES, most):
        yield values[torch.randint(count, (min(most, RESAMPLES - done), count), generator=generator)]


def statistic_interval(statistic: Callable[[Tensor], float], count: int, seed: int) -> tuple[float, float]:
    """Bootstrap confidence interval of any statistic of a set of images, centred on its value.

    Repeats make a resample look more clustered than the set it came from, so that the resampled values are shifted as a
    whole; only their spread is used.

    Args:
        statistic: its value on the images at given positions, repeats included.
        count: how many images there are.
        seed: of the resamples.
    """
    generator = seeds.generator(seed, "bootstrap")
    found = [statistic(torch.randint(count, (count,), generator=generator)) for _ in range(FEW_RESAMPLES)]
    values = torch.tensor(found, dtype=torch.float64)
    return _ends(values - values.nanmean() + statistic(torch.arange(count)))


def _ends(values: Tensor) -> tuple[float, float]:
    tail = (1 - CONFIDENCE) / 2
    low, high = values.nanquantile(torch.tensor([tail, 1 - tail], dtype=torch.float64)).tolist()
    return low, high
