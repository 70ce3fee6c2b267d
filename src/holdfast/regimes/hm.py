"""Hardness manipulation (HM)."""

from __future__ import annotations

import torch
from torch import Tensor

from holdfast.attacks import Budget, RaiseHardness, References
from holdfast.attacks.frozen import Statistics
from holdfast.errors import RecipeError
from holdfast.losses import Encoded
from holdfast.mining import Miner
from holdfast.models.bank import CLEAN, SetStart
from holdfast.regimes.base import (
    EIGHT_STEPS,
    Adversarial,
    Batch,
    StepContext,
    StepResult,
    register,
    require_not_negative,
)
from holdfast.regimes.hardness_schedules import Destination
from holdfast.regimes.manipulation import Manipulation
from holdfast.regimes.triplet_layout import TripletLayout, hardness
from holdfast.sphere import pairwise_distance

ADVERSARIAL = "hm"
"""The BatchNorm set of adversarial triplets, where they have one."""


@register("hm")
class HardnessManipulation(Manipulation):
    """Learn from triplets made as hard as asked and no harder: robust without collapse; η + 1 passes per step.

    L(a', p', n') + λ mean relu(d(a, a') - d(a, p) + m),
    (a', p', n') = argmin Σ max(0, H_D - H)², H = d(a', p') - d(a', n')

    Each triplet has copies of its own of its images. Triplets that are hard enough stay untouched bit for bit. A loss
    on triplets learns from exactly these: the source mines, and a miner of the loss is not used. Any other loss takes
    the adversarial images with their labels, and mines them if it has a miner. The log has the mean hardness of the
    source, the destination and the adversarial triplets (`hardness_source`, `hardness_destination`,
    `hardness_adversarial`) and the fraction that was attacked (`moved`).

    With `separate` the clean batch is learnt too, with the recipe's loss and its miner, and adversarial triplets are
    crafted and learnt through a BatchNorm set of their own, `hm`: a loss of each, one pass more, and the clean set is
    the model, as in `mdprop`. The log has both losses, as `triplet` and `clean`.

    Args:
        source: mines the triplets in the clean batch.
        destination: H_D: `lga`, `g-2`, `g-half`, `g-b`; a miner, whose hardness on the same anchors is meant; or a
            number between -2 and 2.
        ics: λ of the intra-class structure term, in which clean a and p learn too; zero leaves it out.
        ics_margin: its margin m.
        u: the loss at which gradual destinations are weakest; larger is a stronger adversary.
        margin: γ: gradual destinations stay between -γ and 0, and remember the loss with this margin.
        budget: of the attack on each image, with its η steps; it starts at the image.
        separate: learn from the clean batch too, and send adversarial triplets through a BatchNorm set of their own.
        statistics: of BatchNorm while mining and crafting: running ones (`eval`), or as in training (`keep`).

    Requirements: unit vectors; a miner that returns triplets; two or more images per class; with `separate`,
        BatchNorm layers.
    Relations: the source as destination is plain training on its triplets; a destination of 2 is `min-max`; `act`
        leaves anchors alone; `free-hm` takes the gradient from the update.
    Reference: Zhou and Patel, CVPR 2022 (HM).
    """

    def __init__(
        self,
        source: Miner | str = "softhard",
        destination: Destination | Miner | float | str = "lga",
        ics: float = 0.0,
        ics_margin: float = 0.0,
        u: float = 0.2,
        margin: float = 0.2,
        budget: Budget = EIGHT_STEPS,
        separate: bool = False,
        statistics: Statistics = "eval",
    ) -> None:
        super().__init__(source, destination, u, margin, statistics)
        require_not_negative("regime.ics", ics)
        require_not_negative("regime.ics_margin", ics_margin)
        if ics_margin and not ics:
            raise RecipeError("ics_margin belongs to the intra-class structure term; give its weight too (ics: 0.5)")
        if budget.start != "zero":
            raise RecipeError("budget.start must be zero: a random start would change triplets that are hard enough")
        self.ics = ics
        self.ics_margin = ics_margin
        self.budget = budget
        self.separate = separate

    @property
    def passes(self) -> int:
        """The steps of crafting and the update; with `separate`, one for the clean images."""
        return self.budget.steps + 1 + self.separate

    def sets(self) -> tuple[SetStart, ...]:
        """One for the adversarial triplets, where they are kept apart."""
        return (SetStart(ADVERSARIAL),) if self.separate else ()

    def step(self, ctx: StepContext, batch: Batch) -> StepResult:
        """Observe, mine, attack up to the destination, learn."""
        task = self.prepare(ctx, batch)
        layout = task.layout
        goal = RaiseHardness(task.limit).bind(References(task.z, normalize=False), layout.rows)
        place = ADVERSARIAL if self.separate else CLEAN
        images = ctx.attack(layout.images(ctx, batch), goal, self.budget, place, self.statistics)
        attacked, clean = self._encoded(ctx, batch, images, layout)
        adversarial = hardness(attacked.z.detach(), layout.flat)
        self.remember(ctx, adversarial)
        terms = {"triplet": layout.loss(ctx, attacked)}
        if self.separate:
            terms["clean"] = ctx.criterion(clean, stage="loss-clean")
        if self.ics:
            terms["ics"] = self._structure(clean.z, attacked.z, layout)
        return StepResult(
            loss=torch.stack(list(terms.values())).sum(),
            encoded=clean if self.separate else attacked,
            terms=terms if len(terms) > 1 else {},
            logs=task.logs(adversarial),
            adversarial=Adversarial(attacked, layout.rows),
            clean=clean if self.separate or self.ics else None,
        )

    def _encoded(
        self, ctx: StepContext, batch: Batch, images: Tensor, layout: TripletLayout
    ) -> tuple[Encoded, Encoded]:
        """Adversarial images, and the clean batch as far as it is learnt from."""
        if self.separate:
            attacked = layout.encode(ctx, batch, images, ADVERSARIAL)
            return attacked, ctx.encode(batch.images, batch.labels, numbers=batch.numbers)
        if not self.ics:
            attacked = layout.encode(ctx, batch, images)
            return attacked, attacked.rows(slice(0))
        # The clean images go along, so that it stays one pass.
        count, everyone = len(layout.rows), len(batch.labels)
        rows = torch.cat((layout.rows, torch.arange(everyone, device=layout.rows.device)))
        images, blocks = torch.cat((images, batch.images)), ((count, 3), (everyone, 1))
        encoded = ctx.encode(images, batch.labels[rows], blocks=blocks, numbers=batch.numbers_of(rows))
        return encoded.rows(slice(count)), encoded.rows(slice(count, None))

    def _structure(self, clean: Tensor, attacked: Tensor, layout: TripletLayout) -> Tensor:
        """An adversarial anchor stays nearer to the clean one than the positive is."""
        anchor = clean[layout.triplets.anchor]
        near = pairwise_distance(anchor, attacked[layout.flat.anchor])
        far = pairwise_distance(anchor, clean[layout.triplets.positive])
        return self.ics * torch.relu(near - far + self.ics_margin).mean()
