"""Min-max training on triplets."""

from __future__ import annotations

from holdfast.attacks import Budget
from holdfast.attacks.frozen import Statistics
from holdfast.mining import Miner
from holdfast.regimes.base import EIGHT_STEPS, register
from holdfast.regimes.hardness_schedules import HARDEST
from holdfast.regimes.hm import HardnessManipulation


@register("min-max")
class MinMax(HardnessManipulation):
    """Learn from the hardest triplets the budget allows: the classic defence, prone to collapse; η + 1 passes per step.

    L(a', p', n'), (a', p', n') = argmax d(a', p') - d(a', n')

    No triplet of unit vectors is harder than 2, so an attack up to 2 never stops, and the direction of a step is that
    of maximising the hardness itself. Logs are those of `hm`.

    Args:
        source: mines the triplets in the clean batch.
        budget: of the attack on each image, with its η steps; it starts at the image.
        statistics: of BatchNorm while mining and crafting: running ones (`eval`), or as in training (`keep`).

    Requirements: unit vectors; a miner that returns triplets; two or more images per class.
    Relations: `hm` with a destination of 2.
    Reference: Madry et al., ICLR 2018; HM, Section 3.1.
    """

    in_words = "learning from the hardest triplets an attack finds"

    advice = (
        "stop at a hardness (regime: hm, destination: lga), mine with regime.source: random, lower regime.budget.eps, "
        "or start from a trained model (init)"
    )

    def __init__(
        self, source: Miner | str = "softhard", budget: Budget = EIGHT_STEPS, statistics: Statistics = "eval"
    ) -> None:
        super().__init__(source, HARDEST, budget=budget, statistics=statistics)
