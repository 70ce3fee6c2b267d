"""Geometry: how classes and vectors spread over the sphere."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Generator, Tensor
from torch.nn.functional import normalize

from holdfast.errors import DataError
from holdfast.metric_info import MetricInfo
from holdfast.metrics.base import Array, EmbeddedSet, Metric, Values, blocks, is_unit, register
from holdfast.sphere import squared_distances

EXACT = 10_000
"""Up to this many vectors every pair is measured; beyond, random pairs are, which then take no longer at 512 dims."""

COLLAPSED_DISTANCE = 0.1
COLLAPSED_RANK = 1.5

_NO_PAIR = "one image makes no pair"
_NO_POSITIVE = "no class has two images"
_ONE_CLASS = "all images are of one class"


def geometry(embeddings: Array, labels: Array, *, seed: int = 0, pairs: int = 1_000_000) -> Values:
    """Spread of classes and vectors, all raw numbers, and whether the embedding has collapsed.

    pi_intra = mean over classes of the mean cosine distance within the class
    pi_inter = mean cosine distance between normalised class means;  pi_ratio = pi_intra / pi_inter
    distance_positive, _negative, _all = mean euclidean distance of pairs of one class, of two classes, of any
    energy_0 = mean log(1/d);  energy_1 = mean 1/d (both with d held above 1e-6);  gaussian_energy = mean exp(-d²)
    effective_rank = exp(entropy of the singular values divided by their sum), vectors not centred
    collapsed = distance_all <= 0.1 (times the root mean square length), or effective_rank < 1.5 in over two dimensions

    The pi metrics, from class sums, and the rank, from the dim × dim second moments, are exact at any size. The means
    over pairs are exact up to 10,000 vectors and estimated from random pairs beyond (a million leave a standard error
    of about 1e-4 on a mean distance).

    Args:
        embeddings: vectors of shape (n, dim).
        labels: their classes.
        seed: of the random pairs.
        pairs: how many random pairs of any kind, and again how many positive ones.

    Requirements: two images in some class for the positive values, two classes for the negative ones, unit vectors
        for the energies; what cannot be measured is None.
    Relations: the loss `energy` is the same energies with gradients, for a batch.
    Reference: pi metrics: Roth et al., ICML 2020; effective rank: Roy and Vetterli, EUSIPCO 2007.
    """
    return Geometry(seed, pairs)(EmbeddedSet.of(embeddings, labels))


@register("geometry")
@dataclass
class Geometry(Metric):
    """Spread of classes and vectors; see `geometry`. With a gallery, queries and gallery are measured together.

    Args:
        seed: of the random pairs.
        pairs: how many random pairs.
    """

    order: ClassVar[int] = 20

    seed: int = 0
    pairs: int = 1_000_000

    def __post_init__(self) -> None:
        if self.pairs < 1:
            raise DataError(f"pairs must be 1 or more, got {self.pairs}")

    def describe(self) -> dict[str, MetricInfo]:
        """Those that people ask for; pi metrics and energies are raw material."""
        words = {
            "distance_positive": "mean distance of two images of one class (0 to 2)",
            "distance_negative": "mean distance of two images of different classes",
            "distance_all": "mean distance of any two images",
            "effective_rank": "dimensions of the embedding that are in use",
            "pi_ratio": "distance within classes over distance between them; small is compact",
            "collapsed": "whether every image lies near every other",
        }
        raw = ("pi_intra", "pi_inter", "energy_0", "energy_1", "gaussian_energy")
        digits = {"effective_rank": 1}
        shown = {
            key: MetricInfo(text, better=None, digits=digits.get(key, 3), shown="page") for key, text in words.items()
        }
        return shown | {key: MetricInfo(better=None, shown="file") for key in raw}

    @torch.no_grad()
    def __call__(self, data: EmbeddedSet) -> Values:
        """Measure the set."""
        vectors, labels = data.everything()
        values = class_spread(vectors, labels)
        self._means_over_pairs(values, vectors, labels)
        rank = _effective_rank(vectors)
        values["effective_rank"] = rank
        spread = values["distance_all"]
        if spread is None:
            values.undefined("collapsed", _NO_PAIR)
        else:
            length = float(vectors.square().sum(1).mean().sqrt())
            flat = vectors.shape[1] > 2 and rank < COLLAPSED_RANK
            values["collapsed"] = flat or spread <= COLLAPSED_DISTANCE * length
        return values

    def _means_over_pairs(self, values: Values, vectors: Tensor, labels: Tensor) -> None:
        if len(vectors) <= EXACT:
            every = pair_means(all_pairs(vectors, labels))
            positive = every
        else:
            generator = torch.Generator().manual_seed(self.seed)
            anyone = torch.zeros_like(labels)
            every = pair_means(random_pairs(vectors, labels, self.pairs, generator, within=anyone))
            positive = pair_means(random_pairs(vectors, labels, self.pairs, generator, within=labels))
        values.put("distance_positive", positive.get("positive"), _NO_POSITIVE)
        values.put("distance_negative", every.get("negative"), _ONE_CLASS)
        values.put("distance_all", every.get("all"), _NO_PAIR)
        unit = is_unit(vectors)
        why = _NO_PAIR if unit else "energies are for unit vectors, and these are not"
        for name in ("energy_0", "energy_1", "gaussian_energy"):
            values.put(name, every.get(name) if unit else None, why)


@torch.no_grad()
def class_spread(vectors: Tensor, labels: Tensor) -> Values:
    """π metrics from class sums: the dot products within a class add up to the squared length of its sum."""
    values = Values()
    classes, index, sizes = torch.unique(labels, return_inverse=True, return_counts=True)
    sums = torch.zeros(len(classes), vectors.shape[1], dtype=torch.float64, device=vectors.device)
    squares = torch.zeros(len(classes), dtype=torch.float64, device=vectors.device)
    for rows in blocks(*vectors.shape):
        directions = normalize(vectors[rows].double(), dim=1)
        sums.index_add_(0, index[rows], directions)
        squares.index_add_(0, index[rows], directions.square().sum(1))
    several = sizes > 1
    within = 1 - (sums.square().sum(1) - squares)[several] / (sizes * (sizes - 1))[several]
    intra = float(within.mean()) if len(within) else None
    means = normalize(sums, dim=1)
    count = len(classes)
    products = means.sum(0).square().sum() - means.square().sum()
    inter = float(1 - products / (count * (count - 1))) if count > 1 else None
    values.put("pi_intra", intra, _NO_POSITIVE)
    values.put("pi_inter", inter, _ONE_CLASS)
    if inter is not None and inter < 1e-12:
        values.undefined("pi_ratio", "the class means coincide")
    else:
        ratio = intra / inter if intra is not None and inter is not None else None
        values.put("pi_ratio", ratio, _NO_POSITIVE if intra is None else _ONE_CLASS)
    return values


def _effective_rank(vectors: Tensor) -> float:
    """From second moments in float64: a decomposition of dim × dim, not of n × dim."""
    moments = torch.zeros(vectors.shape[1], vectors.shape[1], dtype=torch.float64, device=vectors.device)
    for rows in blocks(*vectors.shape):
        block = vectors[rows].double()
        moments += block.T @ block
    singular = torch.linalg.eigvalsh(moments).clamp_min(0).sqrt()
    fractions = singular / singular.sum().clamp_min(1e-12)
    return float(torch.special.entr(fractions).sum().exp())


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
