"""What is found out about a model or its training: attacks, mined triplets, BatchNorm sets, nominal cost."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterator
from statistics import fmean, pvariance
from typing import Literal

import torch
from torch import Tensor

from holdfast import mining, seeds
from holdfast.attacks import Budget
from holdfast.attacks.frozen import frozen
from holdfast.audit.preparation import Execution, Selection, make_subject
from holdfast.data import SAMPLERS, ImageStore, ImageTable, Sampler
from holdfast.devices import seeded_devices
from holdfast.errors import DataError
from holdfast.evaluation import choose_split, embed
from holdfast.metrics.retrieval import Retrieval
from holdfast.mining.triplet import Variant
from holdfast.models import Embedder
from holdfast.models.bank import CLEAN
from holdfast.sphere import distance
from holdfast.training.recipe import load_recipe
from holdfast.training.session import exact_digest
from holdfast_studies.probes import ProbeFunction, ProbeResult, Scene, register

BUDGET = Budget(eps=0.0314, step=0.007, steps=7)
"""Of ADML's evaluation."""


@register("attack-strength")
@dataclasses.dataclass(frozen=True, kw_only=True)
class AttackStrength(ProbeFunction):
    """How far an attack on single queries lowers R@1, and how far it shifts them.

    Figures: `R@1` under attack, `drop` from the clean R@1 of the same queries, `shift`, the mean distance between
    clean and attacked vectors.

    Args:
        goal: what the attacker wants, by name.
        margin: hinge of the goal `triplet`; None for none.
        eps: of the attack; steps keep the proportion of ADML's.
        units: of eps.
        limit: images attacked; None for all.

    Requirements: a model, and images with labels.
    Reference: ADML, Figure 3.
    """

    goal: str
    margin: float | None = None
    eps: float = 0.0314
    units: Literal["pixel", "normalized"] = "pixel"
    limit: int | None = 500

    def __call__(self, scene: Scene) -> ProbeResult:
        """Attack."""
        model, table = scene.shown("attack-strength")
        split = choose_split(table, None)
        with frozen(model), torch.random.fork_rng(seeded_devices(scene.device)):
            selection = Selection(table, split, self.limit, scene.seed)
            subject, _, _ = make_subject(model, selection, Execution(batch=256))
            budget = dataclasses.replace(BUDGET.with_eps(self.eps), units=self.units).in_pixels(subject.std)
            goal = {"name": self.goal, **({} if self.margin is None else {"margin": self.margin})}
            attack = subject.attack_on(self.goal, goal, budget)
            starts = range(0, len(subject.rows), subject.block)
            attacked = torch.cat([attack(slice(start, start + subject.block))["vectors"] for start in starts])
        clean = subject.references.clean(subject.rows)
        before, after = (
            100 * float(Retrieval((1,)).per_query(subject.references.embedded(vectors, subject.rows))["R@1"].nanmean())
            for vectors in (clean, attacked)
        )
        return ProbeResult(
            figures={"R@1": after, "drop": before - after, "shift": float(distance(attacked, clean).mean())}
        )


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
    def __call__(self, scene: Scene) -> ProbeResult:
        """Embed once, then mine."""
        model, whole = scene.shown("mined-hardness")
        table = whole.split(self.split)
        z, labels = _embedded(model, table, scene.device), torch.tensor(table.labels)
        miner = mining.build(self.miner, anchors="first", variant=self.variant)
        generator = seeds.generator(scene.seed, "mining")
        means, variances = [], []
        for rows in itertools.islice(self._drawn(labels, scene.seed), self.batches):
            triplets = miner(z[rows], labels[rows], generator, rows)
            if not isinstance(triplets, mining.Triplets):
                raise DataError(f"miner '{self.miner}' returns pairs; hardness needs a miner of triplets")
            anchor, positive, negative = (z[rows][index].double() for index in triplets)
            hardness = distance(anchor, positive) - distance(anchor, negative)
            means.append(float(hardness.mean()))
            variances.append(float(hardness.var(unbiased=False)))
        within, between = fmean(variances), pvariance(means)
        return ProbeResult(figures={"hardness": fmean(means), "variance": within, "variance of means": between})

    def _drawn(self, labels: Tensor, seed: int) -> Iterator[Tensor]:
        """Batches without end, epoch after epoch."""
        batches = SAMPLERS[self.sampler](labels, self.pairs, 2, seed)
        for epoch in itertools.count():
            batches.set_epoch(epoch)
            yield from batches


_last: dict[str, Tensor] = {}


def _embedded(model: Embedder, table: ImageTable, device: torch.device) -> Tensor:
    """Embeddings of images; the last are kept, as the next miner asks for the same."""
    key = f"{model.view} {exact_digest(table.ids, torch.tensor(table.labels), model)}"
    if key not in _last:
        _last.clear()
        _last[key] = embed(model, ImageStore(table, model.view, device))
    return _last[key]


@register("batchnorm-drift")
@dataclasses.dataclass(frozen=True)
class BatchNormDrift(ProbeFunction):
    """Learnt weights and biases of each pair of sets, compared layer by layer.

    |u - v| / √((|u|² + |v|²) / 2) of each layer: 0 for equal sets, √2 for unrelated ones

    Figures are `weight/A-B` and `bias/A-B`, means over the layers; series of the same names have every layer. The clean
    set comes first, the others by name.
    """

    def __call__(self, scene: Scene) -> ProbeResult:
        """Compare all pairs."""
        if scene.model is None or not len(scene.model.bank):
            raise DataError("batchnorm-drift compares BatchNorm sets; give it a model of mdprop or advprop-d")
        figures: dict[str, float | None] = {}
        series = {}
        for (first, own), (second, other) in itertools.combinations(_sets(scene.model).items(), 2):
            for kind in ("weight", "bias"):
                gaps = [_gap(own[name], other[name]) for name in own if name.endswith(f".{kind}")]
                figures[f"{kind}/{first}-{second}"] = fmean(gaps)
                series[f"{kind}/{first}-{second}"] = [[place, gap] for place, gap in enumerate(gaps)]
        return ProbeResult(figures=figures, series=series)


def _sets(model: Embedder) -> dict[str, dict[str, Tensor]]:
    """Set → name in the backbone → tensor, of weights and biases."""
    sets: dict[str, dict[str, Tensor]] = {CLEAN: dict(model.backbone.named_parameters())}
    sets |= {name: model.bank.tensors(name) for name in sorted(model.bank.names())}
    learnt = [name for name in sets[CLEAN] if all(name in tensors for tensors in sets.values())]
    return {name: {place: tensors[place].detach().double() for place in learnt} for name, tensors in sets.items()}


def _gap(u: Tensor, v: Tensor) -> float:
    size = float((u.square().sum() + v.square().sum()) / 2) ** 0.5
    return float((u - v).norm()) / size if size else 0.0


@register("spent")
@dataclasses.dataclass(frozen=True)
class NominalPasses(ProbeFunction):
    """Nominal passes forward and back over each training image in the whole run: epochs times passes per batch.

    A regime that leaves out some images of a batch spends less; `log/passes` has what it did. Those that only look
    (mining, evaluation) are not counted.
    """

    def __call__(self, scene: Scene) -> ProbeResult:
        """Read the recipe."""
        if scene.run is None:
            raise DataError("spent is about a training; give it a trained run")
        recipe = load_recipe(scene.run)
        return ProbeResult(figures={"passes": float(recipe.epochs * recipe.regime.build().passes)})
