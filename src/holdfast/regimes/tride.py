"""Collapse-aware triplet decoupling (CA-TRIDE)."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from holdfast.attacks import BoundGoal, Budget, MisplaceAnchors, MixCandidates
from holdfast.attacks.frozen import Statistics
from holdfast.attacks.goals.collapseness import collapseness, nearer_half
from holdfast.losses import Encoded
from holdfast.mining import Miner, SemiHard, Triplets
from holdfast.regimes.base import Adversarial, Batch, Regime, StepContext, StepResult, register, require_not_negative
from holdfast.regimes.triplet_layout import hardness, mine_triplets, triplet_miner, triplet_rows
from holdfast.sphere import pairwise_distance

SIXTEEN_STEPS = Budget(eps=8 / 255, step=1 / 255, steps=16)
"""Of the released code, at the end of training."""


@register("tride")
class CollapseAwareTriplets(Regime):
    """Attack candidates and anchors of triplets in turn, and no farther than collapse; η + 1 passes per step.

    even steps: L(a, p', n') + R, (p', n') = argmin relu(C_n - C_p);
    odd steps: L(a', p, n) + R, a' = argmin relu(C_p - C_n) + exp(-relu(C_n - C_p)) relu(D_n - mean d(a', a));
    R = w relu(D_p - D_n + m); C = Σ v d / Σ v, v = exp(λ (d - max d)), collapseness over the triplets of a batch;
    D the mean of the nearer half; d of a to p or n

    The source is the authors' released code, not the paper. There the step of an attack has the length α t, t the
    share of training done, and the band of semi-hard negatives the width γ (1 - t/2)²; so here, for a `semihard`
    source. R is added to every second value that the released loss computes, the first being that of the clean batch
    for its log: each update has it. t grows with every step here, and with every epoch there.

    Each triplet has copies of its own of its images. A loss that does not learn from triplets takes these images with
    their labels. The log has the mean hardness of the mined and the adversarial triplets (`hardness_source`,
    `hardness_adversarial`) and C_p - C_n of the adversarial ones (`collapseness`).

    Args:
        source: mines the triplets in the clean batch.
        sharpness: λ; the released code has 10 for CUB, 9.5 for CARS, 2 for SOP.
        near: w, the weight of R.
        near_margin: m, its margin.
        budget: of the attack at the end of training, with its η steps.
        statistics: of BatchNorm while mining and crafting: running ones (`eval`), or as in training (`keep`).

    Requirements: unit vectors; a miner that returns triplets; two or more images per class.
    Relations: `act` attacks candidates alone, as far as possible; `hm` all images of a triplet, up to a hardness.
    Reference: the released code of Tian et al., ICML 2024 (CA-TRIDE).
    """

    unit_vectors = True
    in_words = "learning from triplets whose candidates and anchors an attack moved in turn"

    advice = (
        "lower regime.budget.eps or regime.budget.step, mine with regime.source: random, start from a trained model "
        "(init), or let the adversary follow the loss (regime: hm)"
    )

    def __init__(
        self,
        source: Miner | str = "semihard",
        sharpness: float = 10.0,
        near: float = 0.5,
        near_margin: float = 0.04,
        budget: Budget = SIXTEEN_STEPS,
        statistics: Statistics = "eval",
    ) -> None:
        require_not_negative("regime.sharpness", sharpness)
        require_not_negative("regime.near", near)
        require_not_negative("regime.near_margin", near_margin)
        self.source = triplet_miner(source)
        self.sharpness = sharpness
        self.near = near
        self.near_margin = near_margin
        self.budget = budget
        self.statistics = statistics

    @property
    def passes(self) -> int:
        """The steps of crafting and the update."""
        return self.budget.steps + 1

    def phase(self, step: int, total: int) -> int:
        """0: candidates are attacked; 1: anchors are."""
        return step % 2

    def rows(self, images: int) -> int:
        """Three for each triplet."""
        return triplet_rows(self.source, images)

    def step(self, ctx: StepContext, batch: Batch) -> StepResult:
        """Observe, mine, attack what is due, learn."""
        clean = ctx.observe(batch.images, batch.labels, statistics=self.statistics, numbers=batch.numbers)
        triplets = mine_triplets(self._miner(ctx.progress), clean, ctx.generator("source"))
        encoded = self._encoded(ctx, batch, triplets, self._images(ctx, batch, clean.z, triplets))
        count = len(triplets.anchor)
        flat = Triplets(*torch.arange(3 * count, device=encoded.z.device).chunk(3))
        anchor, positive, negative = encoded.z.chunk(3)
        near, far = pairwise_distance(anchor, positive), pairwise_distance(anchor, negative)
        terms = {"triplet": ctx.criterion(encoded, flat if ctx.on_triplets else None)}
        if self.near:
            terms["near"] = self.near * torch.relu(nearer_half(near) - nearer_half(far) + self.near_margin)
        with torch.no_grad():
            logs = {
                "hardness_source": hardness(clean.z, triplets).mean(),
                "hardness_adversarial": (near - far).mean(),
                "collapseness": collapseness(near, self.sharpness) - collapseness(far, self.sharpness),
            }
        return StepResult(
            loss=torch.stack(list(terms.values())).sum(),
            encoded=encoded,
            terms=terms if len(terms) > 1 else {},
            logs=logs,
            adversarial=Adversarial(encoded, torch.cat(triplets)),
        )

    def caption(self, line: Mapping[str, float]) -> str:
        """How hard triplets were and became, and how much less collapsed positives are than negatives."""
        return (
            f"H {line['hardness_source']:.2f} → {line['hardness_adversarial']:.2f}  "
            f"C_p - C_n {line['collapseness']:.2f}"
        )

    def _miner(self, progress: Tensor) -> Miner:
        """The source, whose band of semi-hard negatives becomes narrower."""
        return self.source.narrowed((1 - progress / 2).square()) if isinstance(self.source, SemiHard) else self.source

    def _images(self, ctx: StepContext, batch: Batch, z: Tensor, triplets: Triplets) -> Tensor:
        """This process's anchors, then its candidates: all positives and all negatives. One of the two is attacked."""
        anchor, positive, negative = triplets
        anchors, candidates = (batch.pick(ctx.mine(rows)) for rows in (anchor, torch.cat((positive, negative))))

        def attacked(images: Tensor, goal: BoundGoal) -> Tensor:
            return ctx.attack(images, goal, self.budget, statistics=self.statistics, pace=ctx.progress)

        if self.phase(ctx.step, ctx.total) == 0:
            candidates = attacked(candidates, MixCandidates(z[anchor], self.sharpness))
        else:
            anchors = attacked(anchors, MisplaceAnchors(z[anchor], z[positive], z[negative], self.sharpness))
        return torch.cat((anchors, candidates))

    def _encoded(self, ctx: StepContext, batch: Batch, triplets: Triplets, images: Tensor) -> Encoded:
        """All anchors, positives and negatives, one after another, embedded in one pass."""
        rows, count = torch.cat(triplets), len(triplets.anchor)
        blocks = ((count, 1), (2 * count, 1))
        return ctx.encode(images, batch.labels[rows], blocks=blocks, numbers=batch.numbers_of(rows))
