"""How hard the triplets are that one miner finds in batches as training draws them."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from itertools import count, islice
from statistics import fmean, pvariance

import torch
from torch import Tensor

from holdfast import mining, seeds
from holdfast.data import SAMPLERS, ImageStore, Sampler
from holdfast.errors import DataError
from holdfast.evaluation import embed
from holdfast.mining.triplet import Variant
from holdfast.sphere import distance
from holdfast_studies.probes import Found, ProbeFunction, Scene, register


@register("mined-hardness")
@dataclasses.dataclass(frozen=True, kw_only=True)
class MinedHardness(ProbeFunction):
    """Mean and variance of `d(a, p) - d(a, n)` in a batch, averaged over batches, and the variance of the batch means.

    The seed draws batches and triplets. The first image of each pair is an anchor, as in the HM paper. All miners see
    the same batches.

    Args:
        miner: its name.
        variant: `published` is that of the HM paper.
        split: whose images are mined.
        pairs: pairs of one class in a batch.
        batches: how many.
        sampler: `classes` that differ in a batch, or the published `pairs`, in which every image is an anchor.
    """

    miner: str
    variant: Variant = "published"
    split: str = "test"
    pairs: int = 56
    batches: int = 200
    sampler: Sampler = "classes"

    @torch.no_grad()
    def __call__(self, scene: Scene) -> Found:
        """Embed once, then mine."""
        if scene.model is None or scene.table is None:
            raise DataError("mined-hardness mines embeddings; give it a model and a dataset")
        store = ImageStore(scene.table.split(self.split), scene.model.view, scene.device)
        z, labels = embed(scene.model, store), torch.tensor(store.table.labels)
        miner = mining.build(self.miner, anchors="first", variant=self.variant)
        generator = seeds.generator(scene.seed, "mining")
        means, variances = [], []
        for rows in islice(self._drawn(labels, scene.seed), self.batches):
            triplets = miner(z[rows], labels[rows], generator, rows)
            if not isinstance(triplets, mining.Triplets):
                raise DataError(f"miner '{self.miner}' returns pairs; hardness needs a miner of triplets")
            anchor, positive, negative = (z[rows][index].double() for index in triplets)
            hardness = distance(anchor, positive) - distance(anchor, negative)
            means.append(float(hardness.mean()))
            variances.append(float(hardness.var(unbiased=False)))
        within, between = fmean(variances), pvariance(means)
        return Found(figures={"hardness": fmean(means), "variance": within, "variance of means": between})

    def _drawn(self, labels: Tensor, seed: int) -> Iterator[Tensor]:
        """Batches without end, epoch after epoch."""
        batches = SAMPLERS[self.sampler](labels, self.pairs, 2, seed)
        for epoch in count():
            batches.set_epoch(epoch)
            yield from batches
