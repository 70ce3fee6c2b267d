"""Hardness: how hard the triplets are that each miner finds in batches of the embeddings."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from holdfast.errors import DataError
from holdfast.metric_info import MetricInfo
from holdfast.metrics.base import Array, EmbeddedSet, Metric, Values, is_unit, register
from holdfast.mining.draw import sample
from holdfast.sphere import distance

MINERS = ("random", "semihard", "softhard", "distance", "hardest")


def hardness(
    embeddings: Array,
    labels: Array,
    miners: Sequence[str] = MINERS,
    batch: int = 112,
    per_class: int = 2,
    seed: int = 0,
    *,
    batches: int = 32,
) -> Values:
    """Mean hardness of mined triplets, `hardness/<miner>`, over random batches.

    hardness = mean of d(a, p) - d(a, n)

    Args:
        embeddings: unit vectors of shape (n, dim).
        labels: their classes.
        miners: names of miners that return triplets.
        batch: images per batch, fewer where there are not enough classes.
        per_class: images of each class in a batch.
        seed: of the batches and of the miners' draws; every miner sees the same batches.
        batches: how many batches.

    Requirements: two classes of `per_class` images and unit vectors; otherwise every value is None.
    Relations: `mining` has the miners; hardness manipulation trains towards another miner's hardness.
    """
    return Hardness(tuple(miners), batch, per_class, seed, batches)(EmbeddedSet.of(embeddings, labels))


@register("hardness")
@dataclass
class Hardness(Metric):
    """Mean hardness of mined triplets; see `hardness`. With a gallery, batches hold queries and gallery alike.

    Args:
        miners: names of miners that return triplets.
        batch: images per batch.
        per_class: images of each class in a batch.
        seed: of the batches and of the miners' draws.
        batches: how many batches.
    """

    order: ClassVar[int] = 30

    miners: tuple[str, ...] = MINERS
    batch: int = 112
    per_class: int = 2
    seed: int = 0
    batches: int = 32

    def __post_init__(self) -> None:
        if self.per_class < 2 or self.batch < 2 * self.per_class or self.batches < 1:
            raise DataError("hardness needs per_class of 2 or more, a batch of two classes or more, 1 batch or more")

    def describe(self) -> dict[str, MetricInfo]:
        """Hardness of each miner."""
        text = "mean hardness of the triplets that this miner finds; above 0, negatives are nearer"
        return {f"hardness/{name}": MetricInfo(text, better=None, shown="file") for name in self.miners}

    @torch.no_grad()
    def __call__(self, data: EmbeddedSet) -> Values:
        """Mine the same batches with every miner."""
        vectors, labels = data.everything()
        values = Values()
        if is_unit(vectors):
            batches, why = list(self._draw(labels)), f"fewer than two classes have {self.per_class} images"
        else:
            batches, why = [], "hardness is for unit vectors, and these are not"
        found = self._mine(vectors, labels, batches)
        for name in self.miners:
            values.put(f"hardness/{name}", _mean(vectors, found[name]) if batches else None, why)
        return values

    def _draw(self, labels: Tensor) -> Iterator[Tensor]:
        """Indices of batches in which the images of a class stand together; nothing without two full classes."""
        sizes = torch.unique(labels, return_counts=True)[1]
        full = (sizes >= self.per_class).nonzero()[:, 0]
        if len(full) < 2:
            return
        by_class = labels.argsort(stable=True)
        starts = sizes.cumsum(0) - sizes
        generator = torch.Generator().manual_seed(self.seed)
        for _ in range(self.batches):
            order = torch.randperm(len(full), generator=generator).to(labels.device)
            chosen = full[order[: self.batch // self.per_class]]
            slots = torch.arange(int(sizes[chosen].max()), device=labels.device)
            lots = sample(torch.rand, (len(chosen), len(slots)), device=labels.device, generator=generator)
            drawn = torch.where(slots < sizes[chosen, None], lots, -1).topk(self.per_class).indices
            yield by_class[(starts[chosen, None] + drawn).flatten()]

    def _mine(self, vectors: Tensor, labels: Tensor, batches: list[Tensor]) -> dict[str, list[Tensor]]:
        """Rows of the triplets that each miner finds, batch by batch."""
        from holdfast import mining

        miners = {name: mining.build(name) for name in self.miners}
        generators = {name: torch.Generator(vectors.device).manual_seed(self.seed) for name in self.miners}
        found: dict[str, list[Tensor]] = {name: [] for name in self.miners}
        for rows in batches:
            z, own = vectors[rows], labels[rows]
            batch = mining.MiningBatch(z, own)  # distances are measured once for all miners
            for name, miner in miners.items():
                if isinstance(miner, mining.TripletMiner):
                    triplets: mining.Tuples = miner.mine(batch, generators[name])
                else:
                    triplets = miner(z, own, generators[name])
                if not isinstance(triplets, mining.Triplets):
                    raise DataError(f"miner '{name}' returns pairs; hardness needs a miner of triplets")
                found[name].append(rows[torch.stack(triplets)])
        return found


def _mean(vectors: Tensor, found: list[Tensor]) -> float | None:
    """Mean `d(a, p) - d(a, n)` of triplets, given as rows of the vectors; None where there is none."""
    anchor, positive, negative = vectors[torch.cat(found, 1)]
    hardness = distance(anchor, positive) - distance(anchor, negative)
    return float(hardness.double().mean()) if len(hardness) else None
