"""What every form of hardness manipulation shares: triplets, how hard each is to become, and what came of it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import torch
from torch import Tensor

from holdfast.attacks.frozen import Statistics
from holdfast.mining import Miner
from holdfast.regimes.base import Batch, Regime, StepContext, require_positive
from holdfast.regimes.hardness_schedules import Destination, Mined, as_destination
from holdfast.regimes.triplet_layout import TripletLayout, hardness, mine_triplets, triplet_miner, triplet_rows


class Task(NamedTuple):
    """Source triplets and how hard each is to become.

    Args:
        z: clean embeddings of the batch.
        layout: of the triplets.
        source: hardness of the clean triplets.
        destination: H_D, one per triplet.
    """

    z: Tensor
    layout: TripletLayout
    source: Tensor
    destination: Tensor

    @property
    def limit(self) -> Tensor:
        """Up to which hardness each triplet is attacked; -∞ where it is hard enough as it is.

        Embedding the images again may differ from the observed batch in the last bit, so who stays untouched is
        settled here, once.
        """
        return self.destination.masked_fill(self.source >= self.destination, -torch.inf)

    def logs(self, adversarial: Tensor) -> dict[str, Tensor]:
        """Means over all triplets, given the hardness of the adversarial ones."""
        return {
            "hardness_source": self.source.mean(),
            "hardness_destination": self.destination.mean(),
            "hardness_adversarial": adversarial.mean(),
            "moved": (self.source < self.destination).to(self.source.dtype).mean(),
        }


class Manipulation(Regime):
    """A regime that raises the hardness of source triplets up to a destination.

    Args:
        source: mines the triplets.
        destination: how hard they become.
        u: the loss at which a gradual destination is weakest.
        margin: γ, of gradual destinations and of the loss they remember.
        statistics: what BatchNorm layers use while mining and crafting.
    """

    unit_vectors = True
    in_words = "learning from triplets that an attack made harder"

    advice = (
        "use a softer regime.destination (lga, semihard or a negative number such as -0.1), lower "
        "regime.budget.eps, or start from a trained model (init)"
    )

    def __init__(
        self,
        source: Miner | str,
        destination: Destination | Miner | float | str,
        u: float,
        margin: float,
        statistics: Statistics,
    ) -> None:
        require_positive("regime.u", u)
        require_positive("regime.margin", margin)
        self.source = triplet_miner(source)
        self.destination = as_destination(destination)
        self.u = u
        self.margin = margin
        self.statistics = statistics

    def rows(self, images: int) -> int:
        """Three for each triplet."""
        return triplet_rows(self.source, images)

    def prepare(self, ctx: StepContext, batch: Batch) -> Task:
        """Look at the clean batch, mine it, and give each triplet its destination."""
        clean = ctx.observe(batch.images, batch.labels, statistics=self.statistics, numbers=batch.numbers)
        triplets = mine_triplets(self.source, clean, ctx.generator("source"))
        mined = Mined(clean, triplets, hardness(clean.z, triplets), self.source, ctx.group, ctx.progress)
        # Once: by the time a step is repeated, the destination remembers the loss of this very step.
        wanted = ctx.once(lambda: self.destination(mined, ctx.generator("destination"), self.u, self.margin))
        return Task(clean.z, TripletLayout(triplets), mined.hardness, wanted)

    def remember(self, ctx: StepContext, adversarial: Tensor) -> None:
        """Tell the destination the triplet loss of the adversarial triplets, given their hardness."""
        if not ctx.repeated:
            self.destination.remember(torch.relu(adversarial + self.margin).mean(), ctx.group)

    def caption(self, line: Mapping[str, float]) -> str:
        """How hard triplets were, became and should have become, and the fraction that was attacked."""
        before, after, wanted = (
            f"{round(line[f'hardness_{name}'], 2) + 0.0:.2f}".replace("0.", ".")  # no -.00
            for name in ("source", "adversarial", "destination")
        )
        return f"H {before}→{after}/{wanted}  {100 * line['moved']:.0f} %"

    def state(self) -> dict[str, float]:
        """What the destination remembers."""
        return self.destination.state()

    def restore(self, state: dict[str, float]) -> None:
        """Take back what `state` gave."""
        self.destination.restore(state)
