"""Means over pairs of vectors: all of them where they are few, random ones where they are many."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import torch
from torch import Generator, Tensor

from holdfast.metrics.base import blocks
from holdfast.sphere import squared_distances


def pair_means(pairs: Iterable[tuple[Tensor, Tensor]]) -> dict[str, float]:
    """Means over blocks of (squared distances, whether the labels agree), summed in float64; those that there are.

    Of the distance d: of any pair (`all`), of pairs that share a label (`positive`) and that do not (`negative`);
    `energy_0` of log(1/d), `energy_1` of 1/d, `gaussian_energy` of exp(-d²).
    """
    total = sum(_sums(squared.double(), same) for squared, same in pairs)
    if not isinstance(total, Tensor):
        return {}
    count, same, distance, distance_same, *energies = total.tolist()
    means = {"all": distance / count}
    if same:
        means["positive"] = distance_same / same
    if count > same:
        means["negative"] = (distance - distance_same) / (count - same)
    names = ("energy_0", "energy_1", "gaussian_energy")
    return means | {name: energy / count for name, energy in zip(names, energies, strict=True)}


def _sums(squared: Tensor, same: Tensor) -> Tensor:
    distance = squared.sqrt()
    held = distance.clamp_min(1e-6)
    return torch.stack(
        [
            torch.full_like(distance[0], distance.numel()),
            same.sum().double(),
            distance.sum(),
            distance[same].sum(),
            -held.log().sum(),
            held.reciprocal().sum(),
            (-squared).exp().sum(),
        ]
    )


def all_pairs(vectors: Tensor, labels: Tensor) -> Iterator[tuple[Tensor, Tensor]]:
    """Every unordered pair, in float64 so that coinciding vectors are at distance zero."""
    vectors = vectors.double()
    index = torch.arange(len(vectors), device=vectors.device)
    for rows in blocks(len(vectors) - 1, len(vectors)):
        others = slice(rows.start + 1, None)
        later = index[others] > index[rows, None]
        same = labels[rows, None] == labels[others]
        yield squared_distances(vectors[rows], vectors[others])[later], same[later]


def random_pairs(
    vectors: Tensor, labels: Tensor, count: int, generator: Generator, *, within: Tensor
) -> Iterator[tuple[Tensor, Tensor]]:
    """Pairs drawn uniformly, with replacement, from the pairs of different vectors that agree in `within`.

    An ordered pair of a class of m vectors is a number below m (m - 1), so one draw below the sum over classes is one
    pair. Draws come from the CPU generator, whatever the device.
    """
    by_class = within.argsort(stable=True)
    sizes = torch.unique(within, return_counts=True)[1]
    ends = (sizes * (sizes - 1)).cumsum(0)
    if ends[-1] == 0:
        return
    draws = torch.randint(int(ends[-1]), (count,), generator=generator).to(vectors.device)
    for rows in blocks(count, 4 * vectors.shape[1]):  # blocks of vectors, not of distances: keep them in cache
        draw = draws[rows]
        which = torch.searchsorted(ends, draw, right=True)
        size = sizes[which]
        draw = draw - (ends[which] - size * (size - 1))
        one, other = draw // (size - 1), draw % (size - 1)
        other = other + (other >= one)
        start = (sizes.cumsum(0) - sizes)[which]
        a, b = by_class[start + one], by_class[start + other]
        yield vectors[a].sub_(vectors[b]).square_().sum(1), labels[a] == labels[b]
