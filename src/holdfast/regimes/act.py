"""Anti-collapse triplets (ACT)."""

from __future__ import annotations

from collections.abc import Mapping

import torch

from holdfast.attacks import Budget, Collapse, References
from holdfast.attacks.frozen import Statistics
from holdfast.mining import Miner
from holdfast.regimes.base import EIGHT_STEPS, Adversarial, Batch, Regime, StepContext, StepResult, register
from holdfast.regimes.triplet_layout import TripletLayout, mine_triplets, triplet_miner, triplet_rows
from holdfast.sphere import distance


@register("act")
class AntiCollapseTriplets(Regime):
    """Separate positives and negatives that were made to collide (anti-collapse); robust, slow; η + 1 passes per step.

    L(a, p', n'), (p', n') = argmin d(f(p'), f(n')), anchors clean

    Each triplet has copies of its own of its images. A loss that does not learn from triplets takes these images with
    their labels. The log has the mean d(p, n) before and after, as `distance_clean` and `distance_adversarial`.

    Args:
        source: mines the triplets in the clean batch.
        budget: of the attack on p and n, with its η steps.
        statistics: of BatchNorm while mining and crafting: running ones (`eval`), or as in training (`keep`).

    Requirements: a miner that returns triplets; two or more images per class.
    Relations: `hm` attacks anchors too, up to a hardness rather than as far as possible; `est` needs no triplets.
    Reference: Zhou et al., Adversarial attack and defense in deep ranking, 2021; HM, Section 2.
    """

    in_words = "learning to separate positives and negatives that an attack made to collide"

    advice = (
        "lower regime.budget.eps or regime.budget.steps, mine with regime.source: random, "
        "start from a trained model (init), or let the adversary grow with the model (regime: hm)"
    )

    def __init__(
        self, source: Miner | str = "random", budget: Budget = EIGHT_STEPS, statistics: Statistics = "eval"
    ) -> None:
        self.source = triplet_miner(source)
        self.budget = budget
        self.statistics = statistics

    @property
    def passes(self) -> int:
        """The steps of crafting and the update."""
        return self.budget.steps + 1

    def rows(self, images: int) -> int:
        """Three for each triplet."""
        return triplet_rows(self.source, images)

    def step(self, ctx: StepContext, batch: Batch) -> StepResult:
        """Observe, mine, make positives and negatives collide, learn."""
        clean = ctx.observe(batch.images, batch.labels, statistics=self.statistics, numbers=batch.numbers)
        layout = TripletLayout(mine_triplets(self.source, clean, ctx.generator("source")))
        anchor, positive, negative = layout.triplets
        pairs = torch.stack((positive, negative), 1).flatten()
        goal = Collapse().bind(References(clean.z, clean.labels, normalize=False), pairs)
        collided = ctx.attack(batch.pick(ctx.mine(pairs, 2)), goal, self.budget, statistics=self.statistics)
        images = torch.stack((batch.pick(ctx.mine(anchor)), collided[0::2], collided[1::2]), 1).flatten(0, 1)
        encoded, flat = layout.encode(ctx, batch, images), layout.flat
        with torch.no_grad():
            logs = {
                "distance_clean": distance(clean.z[positive], clean.z[negative]).mean(),
                "distance_adversarial": distance(encoded.z[flat.positive], encoded.z[flat.negative]).mean(),
            }
        adversarial = Adversarial(encoded, layout.rows)
        return StepResult(loss=layout.loss(ctx, encoded), encoded=encoded, logs=logs, adversarial=adversarial)

    def caption(self, line: Mapping[str, float]) -> str:
        """How near positives came to negatives."""
        return f"d(p, n) {line['distance_clean']:.3f} → {line['distance_adversarial']:.3f}"
